//! Small kernels: how lanes, warps and blocks go on, and what stops them.

use super::{Allocation, Fault, Kind, Launch, Table, run};
use crate::decode::{Symbols, kernel};
use crate::ptx::parse;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n\
    .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<30>; .shared .align 1024 .b8 s[2048];\n\
    ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;\n\
    mov.u32 %r20, s; cvta.to.global.u64 %rd3, %rd1; mov.u32 %r2, %ctaid.x;\n";

/// Runs a body with a buffer of `len` words and gives these.
fn try_run(body: &str, grid: u32, threads: u32, len: usize, seed: u64) -> Result<Vec<u32>, Fault> {
    let text = format!("{HEAD}{body}\nret;\n}}\n");
    let module = parse(&text).unwrap();
    let kernel = kernel(&module, &Symbols::new(), &module.functions[0]).unwrap();
    let out = Allocation::new(4 * len).unwrap();
    let address = out.address();
    // SAFETY: so many bytes were just allocated.
    unsafe { (address as *mut u8).write_bytes(0, 4 * len) };
    let mut table = Table::default();
    table.insert(out);
    let launch = Launch {
        kernel: Arc::new(kernel),
        params: address.to_le_bytes().to_vec(),
        grid: [grid, 1, 1],
        block: [threads, 1, 1],
        cluster: [1; 3],
        explicit_cluster: false,
        dynamic_shared: 0,
        memory: Arc::new(table),
        sms: 4,
        resident: 8,
        seed,
        deadline: Instant::now() + Duration::from_secs(60),
        checks_fences: true,
    };
    run(&launch)?;
    // SAFETY: the launch keeps the allocation of so many words, all written above.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u32, len) }.to_vec())
}

#[test]
fn halves_are_compared_as_numbers() {
    // 0 and -0 are equal, NaNs are not, small integers are subnormal numbers.
    let body = "mov.u32 %r3, 0x80007e00; mov.u32 %r4, 0x00007e00; set.eq.u32.f16x2 %r5, %r3, %r4; st.global.u32 [%rd1], %r5;\n\
        mov.u32 %r3, 0x00030005; mov.u32 %r4, 0x00030006; set.lt.u32.f16x2 %r5, %r3, %r4; st.global.u32 [%rd1+4], %r5;";
    assert_eq!(try_run(body, 1, 1, 2, 1).unwrap(), [0xffff_0000, 0x0000_ffff]);
}

fn fault(body: &str, threads: u32) -> Fault {
    try_run(body, 1, threads, 64, 1).unwrap_err()
}

#[test]
fn lanes_diverge_and_meet() {
    // Each lane adds its number as often as its number says; odd ones go another way. All meet at a vote.
    let body = "mov.u32 %r3, 0; mov.u32 %r4, 0;\n\
        L: setp.ge.u32 %p1, %r4, %r1; @%p1 bra E; add.u32 %r3, %r3, %r1; add.u32 %r4, %r4, 1; bra L;\n\
        E: and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 1; @%p2 bra O; add.u32 %r3, %r3, 1000; bra J;\n\
        O: add.u32 %r3, %r3, 2000; J: vote.sync.ballot.b32 %r6, %p2, -1; xor.b32 %r6, %r6, 0xAAAAAAAA; add.u32 %r3, %r3, %r6;\n\
        st.global.u32 [%rd2], %r3;";
    let expected: Vec<u32> = (0..32).map(|i| i * i + 1000 + i % 2 * 1000).collect();
    assert_eq!(try_run(body, 1, 32, 32, 1).unwrap(), expected);
}

#[test]
fn lanes_wait_for_one_another() {
    // All but lane 31 wait for a flag that lane 31 sets; the loop comes first in the code.
    let body = "setp.eq.u32 %p1, %r1, 31; mov.u32 %r4, 0; setp.eq.u32 %p2, %r1, 0; @%p2 st.shared.u32 [%r20], %r4;\n\
        bar.warp.sync -1; @%p1 bra S;\n\
        W: ld.volatile.shared.u32 %r3, [%r20]; setp.eq.u32 %p2, %r3, 0; @%p2 bra W; st.global.u32 [%rd2], %r3; bra E;\n\
        S: mov.u32 %r3, 7; st.volatile.shared.u32 [%r20], %r3; st.global.u32 [%rd2], %r3; E:";
    for seed in 0..20 {
        assert_eq!(try_run(body, 1, 32, 32, seed).unwrap(), [7; 32]);
    }
}

#[test]
fn blocks_wait_for_later_blocks() {
    let body = "setp.ne.u32 %p1, %r1, 0; @%p1 bra E; setp.eq.u32 %p2, %r2, 3; @%p2 bra S;\n\
        W: ld.acquire.gpu.global.u32 %r3, [%rd1]; setp.eq.u32 %p3, %r3, 0; @%p3 bra W; bra E;\n\
        S: mov.u32 %r3, 1; st.release.gpu.global.u32 [%rd1], %r3; E:";
    assert_eq!(try_run(body, 4, 32, 1, 1).unwrap(), [1]);
}

#[test]
fn faults_say_where() {
    let outside = fault("ld.global.u32 %r3, [%rd2+240]; st.global.u32 [%rd2], %r3;", 32);
    assert_eq!(outside.kind, Kind::IllegalAddress);
    for words in
        ["lane 4", "kernel k", "block [0, 0, 0]", "line 9", "256 bytes behind the start of an allocation of 256"]
    {
        assert!(outside.reason.contains(words), "{}: {words}", outside.reason);
    }
    assert_eq!(fault("ld.global.u32 %r3, [%rd1+2];", 32).kind, Kind::Misaligned);
    assert_eq!(fault("ld.shared.u32 %r3, [4];", 32).kind, Kind::IllegalAddress);
    assert_eq!(fault("st.shared.u32 [%r20+2048], %r1;", 32).kind, Kind::IllegalAddress);
    assert_eq!(fault("trap;", 32).kind, Kind::Failure);
}

#[test]
fn deadlocks_are_reported() {
    let alone = fault("bar.sync 1, 64;", 32);
    assert_eq!(alone.kind, Kind::IllegalInstruction, "{}", alone.reason);
    let body = "setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 1, 64;";
    let waits = fault(body, 64);
    assert!(
        waits.kind == Kind::Timeout && waits.reason.contains("waits at barrier 1, 32 of Some(64)"),
        "{}",
        waits.reason
    );
    let split = fault(
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra E; W: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra W; E: bar.sync 0;",
        32,
    );
    assert!(split.kind == Kind::Timeout && split.reason.contains("waits for the lanes"), "{}", split.reason);
}

#[test]
fn a_copy_that_nobody_waits_for_is_late() {
    let body = |wait: &str| {
        format!(
            "mov.u32 %r3, 5; st.shared.u32 [%r20], %r3; mov.u32 %r3, 9; st.global.u32 [%rd1], %r3;\n\
             cp.async.ca.shared.global [%r20], [%rd1], 4; cp.async.commit_group; {wait}\n\
             ld.shared.u32 %r4, [%r20]; st.global.u32 [%rd1+4], %r4;"
        )
    };
    assert_eq!(try_run(&body(""), 1, 1, 2, 1).unwrap(), [9, 5]);
    assert_eq!(try_run(&body("cp.async.wait_group 0;"), 1, 1, 2, 1).unwrap(), [9, 9]);
}

/// Copies 16 bytes each to two places with a barrier each, with a body behind.
fn two_copies(body: &str) -> String {
    format!(
        "add.u32 %r21, %r20, 64; add.u32 %r22, %r20, 72; mov.u32 %r3, 1; mov.u32 %r4, 16;\n\
         mbarrier.init.shared::cta.b64 [%r21], %r3; mbarrier.init.shared::cta.b64 [%r22], %r3; fence.mbarrier_init.release.cluster;\n\
         mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r21], %r4; mbarrier.arrive.expect_tx.shared::cta.b64 %rd5, [%r22], %r4;\n\
         add.u32 %r23, %r20, 16;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r20], [%rd1], %r4, [%r21];\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r23], [%rd1], %r4, [%r22];\n{body}"
    )
}

#[test]
fn copies_overtake_one_another() {
    // The second is waited for; was the first there?
    let body = two_copies(
        "mov.u32 %r5, 0;\nW: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r22], %r5; @!%p1 bra W;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r21], %r5; selp.u32 %r6, 1, 0, %p2; st.global.u32 [%rd1+16], %r6;\n\
         X: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r21], %r5; @!%p1 bra X;",
    );
    let first_was_there: Vec<u32> = (0..40).map(|seed| try_run(&body, 1, 1, 8, seed).unwrap()[4]).collect();
    assert!(first_was_there.contains(&0) && first_was_there.contains(&1), "{first_was_there:?}");
}

#[test]
fn a_block_does_not_end_before_its_copies() {
    let faults = (0..20).filter_map(|seed| try_run(&two_copies(""), 1, 1, 8, seed).err());
    let reasons: Vec<String> = faults.map(|fault| fault.reason).collect();
    assert!(reasons.iter().any(|reason| reason.contains("ends while 16 bytes")), "{reasons:?}");
}

#[test]
fn stores_that_the_copy_engine_reads_need_a_fence() {
    let body = |fence: &str| {
        format!(
            "mov.u32 %r3, 3; st.shared.v4.u32 [%r20], {{%r3, %r3, %r3, %r3}}; {fence}\n\
             cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r20], 16; cp.async.bulk.commit_group;\n\
             cp.async.bulk.wait_group 0;"
        )
    };
    assert_eq!(try_run(&body("fence.proxy.async.shared::cta;"), 1, 1, 4, 1).unwrap(), [3; 4]);
    let missing = try_run(&body(""), 1, 1, 4, 1).unwrap_err();
    assert!(missing.reason.contains("without fence.proxy.async"), "{}", missing.reason);
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let body = "atom.global.add.u32 %r3, [%rd1], 1; setp.eq.u32 %p1, %r3, 100; @%p1 st.global.u32 [%rd1+4], %r1;";
    let orders: Vec<u32> = (0..12).map(|seed| try_run(body, 1, 256, 2, seed).unwrap()[1]).collect();
    assert_eq!(orders, (0..12).map(|seed| try_run(body, 1, 256, 2, seed).unwrap()[1]).collect::<Vec<_>>());
    assert!(orders.iter().any(|&order| order != orders[0]), "{orders:?}");
}

#[test]
fn functions_are_called() {
    let text = ".version 8.6\n.target sm_90a\n.address_size 64\n.func (.param .b32 r) twice(.param .b32 a)\n{ .reg .b32 %x<3>; .reg .pred %q;\n\
        ld.param.b32 %x1, [a]; add.u32 %x2, %x1, %x1; st.param.b32 [r], %x2; ret; }\n\
        .visible .entry k(.param .u64 out)\n{ .reg .b32 %r<4>; .reg .b64 %rd<2>;\n\
        ld.param.u64 %rd1, [out]; mov.u32 %r1, 21;\n\
        { .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call.uni (q), twice, (p); ld.param.b32 %r2, [q]; }\n\
        st.global.u32 [%rd1], %r2; ret; }\n";
    let module = parse(text).unwrap();
    let entry = module.functions.iter().find(|function| function.is_entry).unwrap();
    let kernel = kernel(&module, &Symbols::new(), entry).unwrap();
    assert_eq!(kernel.local_bytes, 16);
}
