//! Tokens of PTX.

use super::{Fault, Result};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// A name, a directive or an opcode with its dots and double colons.
    Word(&'a str),
    /// A whole number.
    Int(u64),
    /// The bits of a single-precision number, written `0f…`.
    F32(u32),
    /// The bits of a double-precision number, written `0d…` or in decimal.
    F64(u64),
    /// What stands between quotation marks.
    Text(&'a str),
    /// A character by itself.
    Sign(u8),
}

/// The tokens of a text, each with its line.
pub fn tokens(text: &str) -> Result<Vec<(Token<'_>, u32)>> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4);
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'/' if bytes[at..].starts_with(b"//") => at = end_of(bytes, at, |byte| byte != b'\n'),
            b'/' if bytes[at..].starts_with(b"/*") => {
                let length = text[at..].find("*/").ok_or(Fault { line, reason: "a comment has no end".to_owned() })?;
                line += text[at..at + length].matches('\n').count() as u32;
                at += length + 2;
            }
            b'"' => {
                at = end_of(bytes, at + 1, |byte| byte != b'"' && byte != b'\n') + 1;
                out.push((Token::Text(&text[start + 1..at - 1]), line));
            }
            b'0'..=b'9' => {
                at = end_of(bytes, at, |byte| byte.is_ascii_alphanumeric() || byte == b'.');
                if matches!(bytes[at - 1], b'e' | b'E')
                    && matches!(bytes.get(at), Some(b'+' | b'-'))
                    && !text[start..at].starts_with("0x")
                {
                    at = end_of(bytes, at + 1, |byte| byte.is_ascii_digit());
                }
                let number = number(&text[start..at]);
                let reason = || format!("{} is no number", &text[start..at]);
                out.push((number.ok_or_else(|| Fault { line, reason: reason() })?, line));
            }
            byte if is_word(byte) => {
                while at < bytes.len()
                    && (is_word(bytes[at]) || bytes[at].is_ascii_digit() || bytes[at..].starts_with(b"::"))
                {
                    at += if bytes[at] == b':' { 2 } else { 1 };
                }
                out.push((Token::Word(&text[start..at]), line));
            }
            byte => {
                out.push((Token::Sign(byte), line));
                at += 1;
            }
        }
    }
    Ok(out)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

fn end_of(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().position(|&byte| !belongs(byte)).unwrap_or(bytes.len() - from)
}

fn number(word: &str) -> Option<Token<'static>> {
    let digits = word.trim_end_matches(['U', 'u']);
    let radix = |prefix: [&str; 2], radix| {
        let digits = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix))?;
        u64::from_str_radix(digits, radix).ok()
    };
    if let Some(bits) = word.strip_prefix("0f").or(word.strip_prefix("0F")) {
        return u32::from_str_radix(bits, 16).ok().map(Token::F32);
    }
    if let Some(bits) = word.strip_prefix("0d").or(word.strip_prefix("0D")) {
        return u64::from_str_radix(bits, 16).ok().map(Token::F64);
    }
    if let Some(value) = radix(["0x", "0X"], 16).or_else(|| radix(["0b", "0B"], 2)) {
        return Some(Token::Int(value));
    }
    if word.contains('.') || (word.contains(['e', 'E'])) {
        return word.parse::<f64>().ok().map(|value| Token::F64(value.to_bits()));
    }
    if digits.len() > 1 && digits.starts_with('0') {
        return u64::from_str_radix(digits, 8).ok().map(Token::Int);
    }
    digits.parse().ok().map(Token::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_signs() {
        let all = |text| tokens(text).unwrap().into_iter().map(|(token, _)| token).collect::<Vec<_>>();
        assert_eq!(
            all("ld.shared::cta.b32 %r1, [a+0x10]; // x"),
            [
                Token::Word("ld.shared::cta.b32"),
                Token::Word("%r1"),
                Token::Sign(b','),
                Token::Sign(b'['),
                Token::Word("a"),
                Token::Sign(b'+'),
                Token::Int(16),
                Token::Sign(b']'),
                Token::Sign(b';'),
            ]
        );
        assert_eq!(
            all("L: 0f3F800000 0d3FF0000000000000"),
            [Token::Word("L"), Token::Sign(b':'), Token::F32(0x3F80_0000), Token::F64(0x3FF0_0000_0000_0000)]
        );
        assert_eq!(all("1.5 010 7U /* a\nb */"), [Token::F64(1.5f64.to_bits()), Token::Int(8), Token::Int(7)]);
        assert!(tokens("0fZZ").is_err());
    }
}
