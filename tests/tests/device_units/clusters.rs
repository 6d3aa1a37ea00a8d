//! Clusters, registers among warpgroups, order among kernels.

use super::unit::{assert_same, hopper_unit};
use oxidnn::launch::LaunchConfig;

#[test]
fn exchange_in_clusters() {
    let Some(unit) = hopper_unit("exchange_in_clusters") else { return };
    let blocks = 4;
    let out = unit.zeros::<u32>(10 * 64 * blocks);
    let config = LaunchConfig {
        grid: [blocks as u32, 1, 1],
        block: [64, 1, 1],
        cluster: Some([2, 1, 1]),
        ..LaunchConfig::default()
    };
    unit.run_with("unit_cluster_exchange", &config, &[out.arg()]);
    let got = out.read::<u32>();
    for block in 0..blocks as u32 {
        let (rank, peer) = (block % 2, block ^ 1);
        type Row<'a> = &'a dyn Fn(u32) -> u32;
        let rows: [(&str, Row<'_>); 10] = [
            ("rank, size, cluster, clusters", &|_| rank | 2 << 8 | (block / 2) << 16 | 2 << 24),
            ("load", &|t| 100 * peer + t),
            ("load of 16 bytes", &|t| 100 * peer + 4 * (t / 4) + 2),
            ("asynchronous store", &|t| 2000 * peer + t),
            ("asynchronous store of 16 bytes", &|t| t + 64 * peer + 12 * t),
            ("asynchronous addition", &|_| 64 * 65 / 2),
            ("copy", &|t| 100 * peer + t),
            ("store", &|t| 1000 * peer + t),
            ("store of 16 bytes", &|t| 64 * peer + 6 * t),
            ("addition", &|_| if rank == 0 { 2 * (63 * 64 / 2) } else { 0 }),
        ];
        for (i, (name, row)) in rows.into_iter().enumerate() {
            let from = (10 * block as usize + i) * 64;
            let expected: Vec<u32> = (0..64).map(row).collect();
            assert_same(&format!("{name} in block {block}"), &got[from..from + 64], &expected);
        }
    }
}

#[test]
fn registers_change_hands() {
    let Some(unit) = hopper_unit("registers_change_hands") else { return };
    let kept = 176;
    let values: Vec<u32> = (0..kept * 256).map(|at| (at / 256 * 7 + at % 256 * 3) % 1000).collect();
    let (x, out) = (unit.upload(&values), unit.zeros::<u32>(256));
    unit.run("unit_schedule_registers", 1, 384, &[x.arg(), out.arg()]);
    let sum = |t: usize| (0..kept).map(|i| (values[256 * i as usize + t] ^ 0x55) * (i + 1)).sum();
    assert_same("sums", &out.read::<u32>(), &(0..256).map(sum).collect::<Vec<u32>>());
}

#[test]
fn dependent_kernels_wait() {
    let Some(unit) = hopper_unit("dependent_kernels_wait") else { return };
    let out = unit.zeros::<u32>(1);
    let config = LaunchConfig { block: [32, 1, 1], ..LaunchConfig::default() };
    unit.start("unit_schedule_first", &config, &[out.arg()]);
    unit.run_with("unit_schedule_second", &LaunchConfig { programmatic: true, ..config }, &[out.arg()]);
    assert_same("one after the other", &out.read::<u32>(), &[42]);
}
