//! The whole pipeline on a small kernel crate. Skipped, visibly, where there is no compiler for kernels.

use cuda_builder::{Arch, CudaBuilder, Error, Freshness, freshness, toolchain};
use std::path::{Path, PathBuf};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture")
}

fn builder(work: &Path) -> CudaBuilder {
    CudaBuilder::new(fixture()).arch(Arch::Sm80).work_dir(work.join("work")).copy_to(work.join("ptx"))
}

/// The text of an entry, up to the next one.
fn entry<'a>(ptx: &'a str, symbol: &str) -> &'a str {
    let start = ptx.find(&format!(".entry {symbol}(")).unwrap_or_else(|| panic!("no entry {symbol}"));
    let end = ptx[start..].find("\n.visible").map_or(ptx.len(), |end| start + end);
    &ptx[start..end]
}

#[test]
fn fixture_kernels_keep_their_barriers_bounds_and_address_spaces() {
    if let Err(reason) = toolchain::discover() {
        println!("skipped: no kernel compiler: {reason}");
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let build = builder(work.path()).export_global("FIXTURE_VERSION").build().unwrap_or_else(|e| panic!("{e}"));
    let read = |name: &str| build.text(build.files.iter().find(|file| file.name == name).unwrap()).unwrap();

    let ptx = read("barrier.sm_80.ptx");
    let kernel = entry(&ptx, "barrier_between_ifs");
    assert_eq!(kernel.matches("bar.sync").count(), 1, "the barrier was copied:\n{kernel}");
    assert!(kernel.contains(".maxntid 128, 1, 1\n.minnctapersm 2\n{"), "{kernel}");
    assert!(ptx.contains(".visible .global .align 8 .b8 FIXTURE_VERSION"), "{ptx}");

    let ptx = read("shared.sm_80.ptx");
    let kernel = entry(&ptx, "shared_array");
    assert!(kernel.contains("st.shared") && kernel.contains("ld.shared"), "generic accesses:\n{kernel}");
    assert!(ptx.lines().any(|line| line.contains(".shared .align") && line.contains("[512]")), "{ptx}");
    assert!(!ptx.contains("__cuda_kernel"), "the markers are still there");

    let manifest = work.path().join("ptx/manifest.json");
    let written = std::fs::metadata(&manifest).unwrap().modified().unwrap();
    let again = builder(work.path()).export_global("FIXTURE_VERSION").build().unwrap();
    assert_eq!(again.files, build.files);
    assert_eq!(
        std::fs::metadata(&manifest).unwrap().modified().unwrap(),
        written,
        "an unchanged crate was built again"
    );
    assert_eq!(freshness(&work.path().join("ptx"), &[fixture()]).unwrap(), Freshness::Fresh);
    let others = [fixture(), Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    assert!(matches!(freshness(&work.path().join("ptx"), &others).unwrap(), Freshness::Stale { .. }));
    assert_eq!(freshness(&work.path().join("nothing"), &[fixture()]).unwrap(), Freshness::Missing);

    let missing = CudaBuilder::new(fixture())
        .arch(Arch::Sm80)
        .work_dir(work.path().join("work"))
        .copy_to(work.path().join("other"))
        .export_global("NOBODY_HAS_THIS")
        .build();
    match missing {
        Err(Error::Gates(faults)) => assert!(faults[0].contains("NOBODY_HAS_THIS is missing"), "{faults:?}"),
        other => panic!("expected a gate to fail, given {other:?}"),
    }
}
