//! The command as its users call it.

use std::process::{Command, Output};

fn oxidnn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oxidnn")).args(args).output().expect("the command starts")
}

fn json(output: &Output) -> serde_json::Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[test]
fn info_lists_every_operator() {
    let info = json(&oxidnn(&["info", "--json"]));
    let names: Vec<&str> = info["operators"].as_array().unwrap().iter().filter_map(|op| op["name"].as_str()).collect();
    let known: Vec<&str> = oxidnn::operators::operators().iter().map(|op| op.name).collect();
    assert_eq!(names, known);
    assert!(!info["devices"].as_array().unwrap().is_empty());
}

#[test]
fn other_types_are_verified() {
    for problem in [
        "conv:fprop pad=1x1 x=2x16x9x9:i8:nhwc w=16x16x3x3:i8:nhwc",
        "conv:fprop x=2x16x9x9:i8:nhwc w=16x16x3x3:i8:nhwc y=2x16x7x7:i32:nhwc",
        "matmul:forward trans=nt a=17x32:f8e4m3 b=16x32:f8e5m2 c=17x16:f8e5m2",
        "matmul:forward math=tf32 a=17x9:f32 b=9x11:f32",
        "transform:forward x=2x3x4x5:f32 y=2x3x4x5:f8e4m3:nhwc",
    ] {
        let report = json(&oxidnn(&["run", problem, "--json", "--alpha", "-0.5", "--beta", "2"]));
        assert_eq!(report["verified"], true, "{problem}: {report}");
    }
}

#[test]
fn one_problem_of_every_operator_is_verified() {
    let problems = [
        "activation:forward mode=tanh x=3x5:f32",
        "adam:update mode=adamw weight_decay=0.01 w=100:bf16 m=100:f32 v=100:f32 master=100:f32",
        "affinegrid:backward dgrid=1x4x5x2:f32",
        "bias:backward dy=4x3x5:f16",
        "conv:fprop pad=1x1 x=2x3x9x9:f32 w=4x3x3x3:f32",
        "crossentropy:forward smoothing=0.1 x=7x10:f32 target=7:i32 lse=7:f32",
        "ctc:backward zero_infinity=1 x=12x3x9:f32 target=3x4:i64",
        "dropout:forward p=0.25 x=7x50:bf16 mask=11:i32",
        "gather:forward x=9x5:f16 indices=4:i32 y=4x5:f16",
        "gridsample:forward mode=linear x=1x3x6x5:f32 grid=1x4x4x2:f32",
        "lrn:forward n=3 alpha=0.5 k=1 x=2x6x5x5:bf16:nhwc",
        "matmul:forward a=17x9:f64 b=9x11:f64 c=17x11:f64",
        "norm:forward mode=batch act=relu x=4x6x5x5:f16:nhwc scale=6:f32 bias=6:f32 mean=6:f32 inv_std=6:f32 running_mean=6:f32",
        "pad:forward mode=reflect before=1x2 x=4x5:f32 y=6x9:f32",
        "pointwise:mul a=3x4:bf16 b=1x4:bf16 c=3x4:bf16",
        "pool:backward mode=max window=2x2 x=1x3x6x6:f32",
        "reduce:max x=3x40x5:f16 y=3x1x5:f16 indices=3x1x5:i32",
        "resample:backward mode=linear dx=1x3x4x4:f32 dy=1x3x7x6:f32",
        "sgd:update momentum=0.9 w=100:f32",
        "softmax:forward kind=log x=4x10:f32",
        "transform:forward x=2x3x4x5:f32 y=2x3x4x5:f16:nhwc",
        "unpool:forward window=2x2 x=1x2x3x3:f32 index=1x2x3x3:i32",
    ];
    let covered: Vec<&str> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
    let known: Vec<&str> = oxidnn::operators::operators().iter().map(|op| op.name).collect();
    assert_eq!(covered, known, "one problem an operator");
    let epilogues = [
        "conv:fprop act=swish coef=1 x=2x3x9x9:bf16 w=4x3x3x3:bf16 bias=4:f32 z=2x4x7x7:bf16 sum=4:f32 sum_squares=4:f32",
        "matmul:forward act=relu a=17x9:f16 b=9x11:f16 bias=11:f16",
    ];
    for problem in problems.into_iter().chain(epilogues) {
        let report = json(&oxidnn(&["run", problem, "--json", "--alpha", "-0.5", "--beta", "2"]));
        assert_eq!(report["verified"], true, "{problem}: {report}");
    }
}

#[test]
fn find_keeps_its_measurements_where_it_is_told() {
    let folder = std::env::temp_dir().join(format!("oxidnn-find-{}", std::process::id()));
    let run = |store: &str| {
        let problem = "conv:fprop pad=1x1 x=2x3x9x9:f32 w=4x3x3x3:f32";
        Command::new(env!("CARGO_BIN_EXE_oxidnn"))
            .args(["run", problem, "--device", "cpu", "--policy", "find"])
            .env("OXIDNN_STORE", store)
            .output()
            .expect("the command starts")
    };
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let path = folder.to_str().unwrap();
    assert!(text(&run(path)).contains("measured now"));
    let second = run(path);
    assert!(text(&second).contains("from the store") && second.stderr.is_empty(), "{second:?}");
    assert!(text(&run("off")).contains("measured now"));
    std::fs::remove_dir_all(&folder).unwrap();
    // The executable is no folder: the run succeeds and says what happened to its measurements.
    let nowhere = run(env!("CARGO_BIN_EXE_oxidnn"));
    assert!(nowhere.status.success() && String::from_utf8_lossy(&nowhere.stderr).contains("warning"), "{nowhere:?}");
}

#[test]
fn refusals_name_the_argument() {
    let refused = |args: &[&str]| {
        let output = oxidnn(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["run", "conv:fprop x=2x3x9x9:f32 w=4x5x3x3:f32"]).contains("bad w"));
    assert!(refused(&["run", "cube:forward x=2:f32"]).contains("given \"cube\""));
    assert!(refused(&["run", "softmax:forward x=4x4:f32", "--device", "tpu"]).contains("given \"tpu\""));
    assert!(refused(&["run", "softmax:forward x=4x4:f32", "--policy", "magic"]).contains("the policy asks for magic"));
    let padded = ["run", "conv:fprop pad=1x1 x=2x3x9x9:f32 w=4x3x3x3:f32", "--device", "cpu", "--nonfinite"];
    let with = |more: &[&'static str]| [&padded[..], more].concat();
    assert!(refused(&with(&["strict", "--policy", "cpu_gemm"])).contains("spread: window"));
    assert!(refused(&with(&["some"])).contains("expected default, strict or any"));
    assert_eq!(json(&oxidnn(&with(&["strict", "--json"])))["algorithm"], "cpu_direct");
    assert!(refused(&["train", "--batch", "0"]).contains("given 20 and 0"));
}

#[test]
fn plan_divides_batches_within_a_workspace() {
    let folder = std::env::temp_dir().join(format!("oxidnn-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (svg, kept) = (path("plan.svg"), path("plan.txt"));
    let words = ["plan", "alexnet:ucudnn", "--estimates", "--device", "h200", "--dtype", "f32", "--layout", "nchw"];
    let with = |more: &[&str]| json(&oxidnn(&[&words[..], &["--json"], more].concat()));
    let total = with(&["--workspace", "120MiB", "--total", "--svg", &svg, "--save", &kept]);
    assert_eq!(total["layers"].as_array().unwrap().len(), 15);
    assert!(total["workspace_bytes"].as_u64().unwrap() <= 120 << 20);
    assert!(total["time_us"].as_f64() <= total["undivided_us"].as_f64());
    let whole = with(&["--workspace", "8MiB", "--policy", "undivided"]);
    let divided = with(&["--workspace", "8MiB"]);
    assert_eq!(whole["time_us"], divided["undivided_us"]);
    assert!(divided["time_us"].as_f64() <= whole["time_us"].as_f64());
    let permitted = with(&["--workspace", "8MiB", "--nonfinite", "any"]);
    assert!(permitted["time_us"].as_f64() <= divided["time_us"].as_f64());
    let strict = with(&["--workspace", "8MiB", "--nonfinite", "strict"]);
    assert!(strict["time_us"].as_f64() >= divided["time_us"].as_f64());
    let loaded = json(&oxidnn(&["plan", "--load", &kept, "--device", "h200", "--json"]));
    assert_eq!((&loaded["time_us"], &loaded["workspace_bytes"]), (&total["time_us"], &total["workspace_bytes"]));
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let refused = |args: &[&str]| {
        let output = oxidnn(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["plan", "--load", &kept, "--device", "cpu"]).contains("expected one made for"));
    assert!(refused(&["plan", "alexnet", "--workspace", "8MB"]).contains("given \"8MB\""));
    assert!(refused(&["plan", "alexnet", "--device", "h200"]).contains("--estimates"));
    assert!(refused(&["plan", "alexnet", "--device", "cpu", "--gpus", "2"]).contains("expected at most 1"));
    assert!(refused(&["plan", "alexnet", "--gpus", "none"]).contains("given \"none\""));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn tables_of_several_sets_of_algorithms_are_one_file() {
    let folder = std::env::temp_dir().join(format!("oxidnn-table-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (table, layers) = (folder.join("t.csv"), folder.join("layers.csv"));
    std::fs::write(&layers, "name,problem\na,conv:fprop pad=1x1 x=4x3x6x6:f32 w=4x3x3x3:f32\n").unwrap();
    let [table, layers] = [&table, &layers].map(|path| path.to_str().unwrap().to_owned());
    let words = ["plan", &layers, "--device", "cpu", "--limits", "1MiB,2MiB", "--table", &table];
    // A budget of no time leaves what is known: nothing, and then all.
    let store = folder.join("store");
    let with = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxidnn"));
        let output = command.env("OXIDNN_STORE", &store).args(words).args(more).output().expect("the command starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    with(&["--time-budget", "0"]);
    with(&["--append", "--algorithms", "cpu_direct,naive"]);
    with(&["--append"]);
    // Policies share what is measured: of four images only parts of three are new.
    with(&["--append", "--policies", "power-of-two,all"]);
    let text = std::fs::read_to_string(&table).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(rows[0].starts_with("network,") && rows[0].ends_with(",workspace_bytes,unmeasured"));
    // Two policies, two limits, three ways to share.
    assert_eq!(rows.len(), 1 + 4 * 12);
    assert!(rows[1..13].iter().all(|row| row.contains(",,,,") && !row.ends_with(",0")), "{text}");
    assert!(rows[13..25].iter().all(|row| row.contains(",cpu_direct+naive,") && row.ends_with(",0")), "{text}");
    assert!(rows[25..].iter().all(|row| row.contains(",all,") && row.ends_with(",0")), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("# command")).count(), 4);
    let measured: Vec<&str> = text.lines().filter(|line| line.starts_with("# measured for")).collect();
    assert!(measured[0].starts_with("# measured for cpu_direct+naive, undivided: 1 parts in 1 rounds"), "{text}");
    // A run that is ended before the rows of a policy are there leaves the table as it was.
    let large = folder.join("large.csv");
    std::fs::write(&large, "name,problem\na,conv:fprop pad=1x1 x=64x128x56x56:f32 w=128x128x3x3:f32\n").unwrap();
    let words = ["plan", large.to_str().unwrap(), "--device", "cpu", "--limits", "1GiB", "--table", &table];
    let mut run = Command::new(env!("CARGO_BIN_EXE_oxidnn")).env("OXIDNN_STORE", &store).args(words).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(run.try_wait().unwrap().is_none());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn compare_lists_its_suites() {
    let output = oxidnn(&["compare", "--list"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for suite in ["resnet50 ", "stem ", "unet3d ", "deepbench_gemm "] {
        assert!(text.lines().any(|line| line.starts_with(suite)), "{suite}: {text}");
    }
    let output = oxidnn(&["compare", "resnet50", "--problems", "--passes", "wgrad", "--limit", "2"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().filter(|line| line.starts_with("conv:wgrad")).count(), 2, "{text}");
}

#[test]
fn compare_says_what_it_needs() {
    let refused = |args: &[&str]| {
        let output = oxidnn(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["compare", "resnet51"]).contains("given \"resnet51\""));
    assert!(refused(&["compare"]).contains("--list"));
    if oxidnn::Context::gpu(0).is_err() {
        let reason = refused(&["compare", "resnet50", "--limit", "1"]);
        assert!(reason.contains("work on a GPU") && reason.contains("no device"), "{reason}");
    }
}

#[test]
fn one_epoch_of_training_learns_something() {
    let report = std::env::temp_dir().join(format!("oxidnn-train-{}.svg", std::process::id()));
    let outcome = json(&oxidnn(&["train", "--epochs", "1", "--json", "--report", report.to_str().unwrap()]));
    assert!(outcome["test_accuracy"].as_f64().unwrap() > 0.5, "{outcome}");
    let svg = std::fs::read_to_string(&report).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("taken for"));
    std::fs::remove_file(report).unwrap();
}
