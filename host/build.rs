//! stub
fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    std::fs::write(
        format!("{out}/embedded.rs"),
        "pub static MODULES: &[EmbeddedModule] = &[]; pub static KERNELS_STATE: super::KernelsState = Err(\"none\");",
    )
    .unwrap();
}
