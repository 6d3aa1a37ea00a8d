//! The part of a module's text that one PTX file needs.
//!
//! The module of all kernels is hundreds of megabytes long, and `opt` would read it once for every PTX file. An excerpt
//! holds what the file's kernels reach and nothing else, and its numbers (attributes, metadata, unnamed constants) are
//! given anew in order of appearance: it changes only when something in it does, so its hash tells whether the file
//! must be made again.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// A module's text, taken apart.
#[derive(Debug)]
pub struct Parts<'a> {
    /// Data layout, target, assembly of the module.
    head: Vec<&'a str>,
    /// Globals, functions and types in the order of the text.
    items: Vec<Item<'a>>,
    /// `@name` and `%type` to the item that defines it.
    defined: HashMap<&'a str, usize>,
    /// `#1`, `!1` to its line.
    numbered: HashMap<&'a str, &'a str>,
    /// `!llvm.module.flags = …` and the like.
    named_metadata: Vec<&'a str>,
}

/// A global, a function or a type.
#[derive(Debug)]
struct Item<'a> {
    text: &'a str,
    /// The items it names.
    uses: Vec<usize>,
}

impl<'a> Parts<'a> {
    /// Takes a module apart.
    pub fn of(module: &'a str) -> Self {
        let (mut head, mut items, mut named_metadata) = (Vec::new(), Vec::new(), Vec::new());
        let (mut defined, mut numbered) = (HashMap::new(), HashMap::new());
        let mut at = 0;
        while at < module.len() {
            let line_end = module[at..].find('\n').map_or(module.len(), |end| at + end);
            let line = &module[at..line_end];
            let mut end = line_end;
            match line.as_bytes().first() {
                Some(b'@' | b'%') => define(&mut items, &mut defined, line, 0),
                Some(b'd') if line.starts_with("declare ") || line.starts_with("define ") => {
                    if line.starts_with("define ") {
                        // Within a body every line is indented or a label.
                        end = module[at..].find("\n}").map_or(module.len(), |end| at + end + 2);
                    }
                    let name = line.find('@').unwrap_or(0);
                    define(&mut items, &mut defined, &module[at..end], name);
                }
                Some(b'a') if line.starts_with("attributes #") => {
                    let number = &line["attributes ".len()..];
                    numbered.insert(&number[..number.find(' ').unwrap_or(number.len())], line);
                }
                Some(b'!') if line.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
                    numbered.insert(&line[..line.find(' ').unwrap_or(line.len())], line);
                }
                Some(b'!') => named_metadata.push(line),
                Some(b'$') | Some(b'm') | Some(b't') => head.push(line),
                // Comments, the module's name and empty lines.
                _ => {}
            }
            at = end + 1;
        }
        let mut parts = Parts { head, items, defined, numbered, named_metadata };
        for at in 0..parts.items.len() {
            let mut uses = Vec::new();
            for token in tokens(parts.items[at].text) {
                if let Token::Name(name) = token
                    && let Some(&item) = parts.defined.get(name)
                {
                    uses.push(item);
                }
            }
            uses.sort_unstable();
            uses.dedup();
            parts.items[at].uses = uses;
        }
        parts
    }

    /// What these symbols reach, as a module. A symbol that the module lacks is left out.
    pub fn excerpt<'s>(&self, symbols: impl IntoIterator<Item = &'s str>) -> String {
        let named = |symbol: &str| self.defined.get(format!("@{symbol}").as_str()).copied();
        let mut open: Vec<usize> = symbols.into_iter().filter_map(named).collect();
        let mut reached: HashSet<usize> = open.iter().copied().collect();
        while let Some(item) = open.pop() {
            open.extend(self.items[item].uses.iter().filter(|item| reached.insert(**item)));
        }
        let mut reached: Vec<usize> = reached.into_iter().collect();
        reached.sort_unstable();

        let mut out = Renumbered::default();
        for line in &self.head {
            out.text.push_str(line);
            out.text.push('\n');
        }
        for item in reached {
            out.push(self.items[item].text);
        }
        for line in &self.named_metadata {
            out.push(line);
        }
        // Lines of attributes and metadata may name further ones, which then follow.
        let mut written = 0;
        while written < out.open.len() {
            let (old, new) = out.open[written];
            written += 1;
            let Some((_, content)) = self.numbered.get(old).and_then(|line| line.split_once(" = ")) else { continue };
            let kind = if old.starts_with('#') { "attributes " } else { "" };
            // Writing to a string does not fail.
            let _ = write!(out.text, "{kind}{}{new} = ", &old[..1]);
            out.push(content);
        }
        out.text
    }
}

fn define<'a>(items: &mut Vec<Item<'a>>, defined: &mut HashMap<&'a str, usize>, text: &'a str, name: usize) {
    if let Some(Token::Name(name)) = tokens(&text[name..]).next() {
        defined.insert(name, items.len());
        items.push(Item { text, uses: Vec::new() });
    }
}

/// What may have to change in an excerpt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    /// `@function`, `@"a name"`, `%type`, `%7`.
    Name(&'a str),
    /// `#7`, `!7`.
    Number(&'a str),
    /// `, !srcloc !7`: the place in the sources that a line of assembly is from, for error messages.
    SourcePlace,
    /// Anything else but comments.
    Other(&'a str),
}

/// The tokens of a text; joined they are the text without comments.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let bytes = rest.as_bytes();
            let (token, len) = match *bytes.first()? {
                b';' => {
                    rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                    continue;
                }
                b'"' => string(rest),
                b'@' | b'%' if bytes.get(1) == Some(&b'"') => {
                    let len = 1 + string(&rest[1..]).1;
                    (Token::Name(&rest[..len]), len)
                }
                b'@' | b'%' => {
                    let len = 1 + word_len(&bytes[1..]);
                    (Token::Name(&rest[..len]), len)
                }
                b'#' | b'!' if bytes.get(1).is_some_and(u8::is_ascii_digit) => {
                    let len = 1 + word_len(&bytes[1..]);
                    (Token::Number(&rest[..len]), len)
                }
                b',' if rest.starts_with(SOURCE_PLACE) => {
                    (Token::SourcePlace, SOURCE_PLACE.len() + word_len(&bytes[SOURCE_PLACE.len()..]))
                }
                _ => {
                    let special = |c: &u8| matches!(c, b';' | b'"' | b'@' | b'%' | b'#' | b'!' | b',');
                    let len = 1 + bytes[1..].iter().position(special).unwrap_or(bytes.len() - 1);
                    (Token::Other(&rest[..len]), len)
                }
            };
            rest = &rest[len..];
            return Some(token);
        }
    })
}

const SOURCE_PLACE: &str = ", !srcloc !";

/// A string literal; a quote within one is written `\22`.
fn string(text: &str) -> (Token<'_>, usize) {
    let len = text[1..].find('"').map_or(text.len(), |end| end + 2);
    (Token::Other(&text[..len]), len)
}

fn word_len(bytes: &[u8]) -> usize {
    let of_name = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'$' | b'-');
    bytes.iter().position(|c| !of_name(c)).unwrap_or(bytes.len())
}

/// A text in which numbers are given in order of appearance.
#[derive(Debug, Default)]
struct Renumbered<'a> {
    text: String,
    given: HashMap<&'a str, usize>,
    /// Attributes and metadata in the order of their new numbers, each with its new one.
    open: Vec<(&'a str, usize)>,
    /// How many constants without a name of their own were met.
    unnamed: usize,
}

impl<'a> Renumbered<'a> {
    fn push(&mut self, text: &'a str) {
        for token in tokens(text) {
            match token {
                Token::Number(old) => {
                    let next = self.open.len();
                    let new = *self.given.entry(old).or_insert(next);
                    if new == next {
                        self.open.push((old, new));
                    }
                    // Writing to a string does not fail.
                    let _ = write!(self.text, "{}{new}", &old[..1]);
                }
                Token::Name(name) if name.starts_with("@anon.") => {
                    let new = *self.given.entry(name).or_insert(self.unnamed);
                    self.unnamed = self.unnamed.max(new + 1);
                    let _ = write!(self.text, "@anon.{new}");
                }
                Token::Name(text) | Token::Other(text) => self.text.push_str(text),
                Token::SourcePlace => {}
            }
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"; ModuleID = 'x'
source_filename = "x"
target triple = "nvptx64-nvidia-cuda"

module asm ".extern .shared .align 1024 .b8 dynsmem[];"

%"a<T>" = type { i32 }
%other = type { i64 }

@anon.77.4 = private constant [2 x i8] c"@f", align 1
@anon.77.5 = private constant [2 x i8] c"ab", align 1

; Function Attrs: nounwind
define void @f(ptr %0) #8 {
start:                                            ; preds = @g
  call void asm sideeffect "@!%p bra $L;  #3", "r"(ptr @anon.77.5) #9, !srcloc !7
  %1 = load i32, ptr %0, align 4, !range !6, !noundef !5
  call void @"h<1>"(%"a<T>" %1)
  ret void
}

define void @g(ptr %0) #7 {
  call void @f(ptr @anon.77.4)
  ret void
}

declare void @"h<1>"(i32)

attributes #7 = { cold }
attributes #8 = { nounwind }
attributes #9 = { convergent }

!llvm.ident = !{!4}
!4 = !{!"rustc"}
!5 = !{}
!6 = !{i32 0, i32 !8}
!7 = !{i64 12}
!8 = !{i32 1}
"#;

    #[test]
    fn an_excerpt_holds_what_is_reached_with_numbers_of_its_own() {
        let expected = r#"target triple = "nvptx64-nvidia-cuda"
module asm ".extern .shared .align 1024 .b8 dynsmem[];"
%"a<T>" = type { i32 }
@anon.0 = private constant [2 x i8] c"ab", align 1
define void @f(ptr %0) #0 {
start:                                            
  call void asm sideeffect "@!%p bra $L;  #3", "r"(ptr @anon.0) #1
  %1 = load i32, ptr %0, align 4, !range !2, !noundef !3
  call void @"h<1>"(%"a<T>" %1)
  ret void
}
declare void @"h<1>"(i32)
!llvm.ident = !{!4}
attributes #0 = { nounwind }
attributes #1 = { convergent }
!2 = !{i32 0, i32 !5}
!3 = !{}
!4 = !{!"rustc"}
!5 = !{i32 1}
"#;
        assert_eq!(Parts::of(MODULE).excerpt(["f", "missing"]), expected);
    }

    #[test]
    fn what_is_elsewhere_does_not_show() {
        let more = MODULE
            .replace("\n@anon.77.4", "\n@anon.77.3 = constant i8 0\n@anon.77.4")
            .replace("#9", "#19")
            .replace("i64 12", "i64 13")
            .replace("{ cold }", "{ hot }");
        assert_eq!(Parts::of(&more).excerpt(["f"]), Parts::of(MODULE).excerpt(["f"]));
        assert_ne!(Parts::of(&more).excerpt(["g"]), Parts::of(MODULE).excerpt(["g"]));
    }
}
