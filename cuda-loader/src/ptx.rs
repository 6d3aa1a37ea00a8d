//! What is added to portable PTX for devices of compute capability 9.0 and later.

/// How a kernel's text begins, at a line's start.
pub const ENTRY: &str = ".visible .entry ";

/// What each kernel begins with: the kernel behind it on the stream may be launched, and what stands before it is done
/// and can be seen.
const BEGINNING: &str = "\tgriddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;\n";

/// Whether a device of this compute capability takes what [`waiting`] makes.
pub fn takes_waiting(compute_capability: (u32, u32)) -> bool {
    compute_capability >= (9, 0)
}

/// The text of an `sm_80` module for compute capability 9.0 and later, where every kernel may be launched with the
/// attribute of programmatic serialization: it waits for those before it by itself. None where a line is missing that
/// such a text has.
pub fn waiting(ptx: &str) -> Option<String> {
    let mut text = String::with_capacity(ptx.len() + ptx.len() / 64);
    let (mut is_targeted, mut in_head) = (false, false);
    for line in ptx.split_inclusive('\n') {
        let words = line.trim_end();
        if words == ".target sm_80" {
            text.push_str(".target sm_90\n");
            is_targeted = true;
            continue;
        }
        in_head |= words.starts_with(ENTRY);
        text.push_str(line);
        if in_head && words == "{" {
            text.push_str(BEGINNING);
            in_head = false;
        }
    }
    (is_targeted && !in_head).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_waits_first_and_nothing_else_does() {
        let ptx = ".version 8.0\n.target sm_80\n.func f\n()\n{\n\tret;\n}\n.visible .entry a(\n\t.param .b8 p[8]\n)\n.maxntid 32, 1, 1\n{\n\t.reg .b32 %r<2>;\n{\n}\n\tret;\n}\n.visible .entry b()\n{\n\tret;\n}\n";
        let text = waiting(ptx).unwrap();
        assert!(text.starts_with(".version 8.0\n.target sm_90\n.func f\n()\n{\n\tret;\n"));
        assert_eq!(text.matches(BEGINNING).count(), 2);
        assert!(text.contains(&format!(".maxntid 32, 1, 1\n{{\n{BEGINNING}\t.reg")));
        assert_eq!(text.replace(BEGINNING, "").replace("sm_90", "sm_80"), ptx);
        assert_eq!(waiting(&ptx.replace("sm_80", "sm_90a")), None);
        assert_eq!(waiting(".target sm_80\n.visible .entry k() { ret; }\n"), None);
    }

    #[test]
    fn hopper_and_what_is_newer_takes_it() {
        assert!(takes_waiting((9, 0)) && takes_waiting((12, 0)) && !takes_waiting((8, 9)));
    }
}
