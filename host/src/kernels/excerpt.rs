//! One kernel's part of a PTX file.
//!
//! The driver compiles a whole text when it loads one, and a file holds all kernels of an operator: of some a program
//! needs one in twenty. Given the one, the driver is done in a twentieth of the time.

use cuda_loader::ptx::ENTRY;

/// The text without the entries of other kernels: what stands outside of entries is kept, with functions and globals
/// that any of them may use. None when the text has no such kernel.
pub(super) fn of_kernel(ptx: &str, symbol: &str) -> Option<String> {
    let mut text = String::new();
    let mut found = false;
    let mut lines = ptx.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let ours = line.strip_prefix(ENTRY).map(|rest| rest.split('(').next() == Some(symbol));
        match ours {
            Some(false) => {
                skip_body(&mut lines)?;
            }
            _ => {
                found |= ours.is_some();
                text.push_str(line);
            }
        }
    }
    found.then_some(text)
}

/// Goes past the brace that closes the next one that opens. Assembly has braces of its own, also at a line's start.
fn skip_body<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<()> {
    let mut depth = 0;
    loop {
        let code = lines.next()?.split("//").next().unwrap_or_default();
        depth += code.matches('{').count();
        depth = depth.checked_sub(code.matches('}').count())?;
        if depth == 0 && code.contains('}') {
            return Some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_remains_with_what_stands_outside() {
        let ptx = ".version 8.0\n.func f\n()\n;\n.visible .entry a(\n\t.param .b8 a_param_0[8]\n)\n{\n\t{ // callseq\n\t}\n}\n\
                   .visible .entry ab(\n)\n{\n\tret;\n}\n.visible .entry b2(\n)\n{\n\t{ .reg .pred p; // }\nmov {a, b}, c;\n}\n\tret;\n}\n.func f()\n{\n\tret;\n}\n";
        assert_eq!(
            of_kernel(ptx, "ab").unwrap(),
            ".version 8.0\n.func f\n()\n;\n.visible .entry ab(\n)\n{\n\tret;\n}\n.func f()\n{\n\tret;\n}\n"
        );
        assert!(of_kernel(ptx, "b2").unwrap().ends_with("mov {a, b}, c;\n}\n\tret;\n}\n.func f()\n{\n\tret;\n}\n"));
        assert!(of_kernel(ptx, "a").unwrap().contains("callseq"));
        assert_eq!(of_kernel(ptx, "b"), None);
    }

    #[test]
    fn every_embedded_kernel_has_a_part_of_its_own() {
        for module in crate::embedded_modules() {
            let ptx = module.ptx().unwrap();
            assert_eq!(ptx.len(), module.ptx_bytes);
            let whole = ptx.matches(ENTRY).count();
            assert_eq!(whole, module.kernels.len(), "{}", module.name);
            let mut bytes = 0;
            for symbol in module.kernels {
                let text = of_kernel(ptx, symbol).unwrap();
                assert_eq!(text.matches(ENTRY).count(), 1, "{symbol}");
                assert!(text.contains(&format!("{ENTRY}{symbol}(")) && text.contains("OXIDNN_ABI_FINGERPRINT[8]"));
                let braces = |brace| text.matches(brace).count();
                assert_eq!(braces('{'), braces('}'), "{symbol}");
                bytes += text.len();
            }
            assert!(bytes >= ptx.len() - 200 * whole, "{}: nothing is lost", module.name);
        }
    }
}
