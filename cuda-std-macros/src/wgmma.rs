//! `wgmma!` and `wgmma_wait!`: assembly with as many operands as an accumulator has registers.

use proc_macro2::TokenStream;
use quote::quote;
use std::fmt::Write as _;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, Token};

/// A type pair: its word in the macro, its words in the instruction, k, and what it allows.
struct Inputs {
    word: &'static str,
    types: &'static str,
    k: u32,
    transposable: bool,
    integer: bool,
    half_accumulator: bool,
}

const fn float(word: &'static str, types: &'static str, k: u32, transposable: bool) -> Inputs {
    Inputs { word, types, k, transposable, integer: false, half_accumulator: false }
}

const fn integer(word: &'static str, types: &'static str) -> Inputs {
    Inputs { word, types, k: 32, transposable: false, integer: true, half_accumulator: false }
}

const fn half(inputs: Inputs) -> Inputs {
    Inputs { half_accumulator: true, ..inputs }
}

const INPUTS: [Inputs; 16] = [
    float("bf16", "f32.bf16.bf16", 16, true),
    float("f16", "f32.f16.f16", 16, true),
    half(float("f16_f16", "f16.f16.f16", 16, true)),
    float("tf32", "f32.tf32.tf32", 8, false),
    float("e4m3", "f32.e4m3.e4m3", 32, false),
    float("e5m2", "f32.e5m2.e5m2", 32, false),
    float("e4m3_e5m2", "f32.e4m3.e5m2", 32, false),
    float("e5m2_e4m3", "f32.e5m2.e4m3", 32, false),
    half(float("e4m3_f16", "f16.e4m3.e4m3", 32, false)),
    half(float("e5m2_f16", "f16.e5m2.e5m2", 32, false)),
    half(float("e4m3_e5m2_f16", "f16.e4m3.e5m2", 32, false)),
    half(float("e5m2_e4m3_f16", "f16.e5m2.e4m3", 32, false)),
    integer("s8", "s32.s8.s8"),
    integer("u8", "s32.u8.u8"),
    integer("s8_u8", "s32.s8.u8"),
    integer("u8_s8", "s32.u8.s8"),
];

struct Pairs(Vec<(Ident, Expr)>);

impl Parse for Pairs {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let pairs = Punctuated::<Pair, Token![,]>::parse_terminated(input)?;
        Ok(Pairs(pairs.into_iter().map(|Pair(key, value)| (key, value)).collect()))
    }
}

struct Pair(Ident, Expr);

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Pair(key, input.parse()?))
    }
}

impl Pairs {
    fn take(&mut self, key: &str) -> Option<Expr> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    fn need(&mut self, key: &str) -> syn::Result<Expr> {
        self.take(key).ok_or_else(|| Error::new(proc_macro2::Span::call_site(), format!("expected {key} = …")))
    }

    fn number(&mut self, key: &str, default: Option<u32>) -> syn::Result<u32> {
        let mut value = match (self.take(key), default) {
            (Some(value), _) => value,
            (None, Some(default)) => return Ok(default),
            (None, None) => self.need(key)?,
        };
        // A `$n:literal` of an outer macro arrives in an invisible group.
        while let Expr::Group(group) = value {
            value = *group.expr;
        }
        match &value {
            Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
            _ => Err(Error::new_spanned(value, format!("{key} is a number written out: it selects the instruction"))),
        }
    }

    fn end(self) -> syn::Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(Error::new(key.span(), "unknown or repeated key")),
        }
    }
}

/// `{0}, {1}, …` in braces that survive the template.
fn register_list(from: usize, count: usize) -> String {
    let names: Vec<String> = (from..from + count).map(|i| format!("{{{i}}}")).collect();
    format!("{{{{{}}}}}", names.join(", "))
}

/// Expands `wgmma!`.
pub fn product(input: TokenStream) -> syn::Result<TokenStream> {
    let mut pairs: Pairs = syn::parse2(input)?;
    let types = pairs.need("types")?;
    let word = quote!(#types).to_string();
    let inputs = INPUTS.iter().find(|inputs| inputs.word == word).ok_or_else(|| {
        let known: Vec<&str> = INPUTS.iter().map(|inputs| inputs.word).collect();
        Error::new_spanned(&types, format!("expected one of {}", known.join(", ")))
    })?;
    let n = pairs.number("n", None)?;
    let fits = (8..=256).contains(&n) && if inputs.integer && n > 32 { n % 16 == 0 } else { n % 8 == 0 };
    if !fits {
        let reason = "n is a multiple of 8 from 8 to 256; for integers above 32, of 16";
        return Err(Error::new(proc_macro2::Span::call_site(), reason));
    }
    let steps = pairs.number("steps", Some(1))?;
    let transpose = [pairs.number("transpose_a", Some(0))?, pairs.number("transpose_b", Some(0))?];
    if transpose != [0, 0] && !inputs.transposable {
        return Err(Error::new_spanned(&types, "only 16-bit types can be read transposed"));
    }
    let (d, b, accumulate) = (pairs.need("d")?, pairs.need("b")?, pairs.need("accumulate")?);
    let (a, a_registers) = (pairs.take("a"), pairs.take("a_registers"));
    let b_step = pairs.number("b_step", Some(0))?;
    let a_step = pairs.number("a_step", Some(0))?;
    let (fence, commit) = (pairs.number("fence", Some(1))?, pairs.number("commit", Some(1))?);
    pairs.end()?;
    let n_registers = (n / if inputs.half_accumulator { 4 } else { 2 }) as usize;
    let b_at = n_registers;
    let flag_at = b_at + 1;
    let a_at = flag_at + 1;
    let mut template =
        vec![format!("{{{{ .reg .pred p, q; .reg .b64 a, b; setp.ne.u32 p, {{{flag_at}}}, 0; setp.eq.u32 q, 0, 0;")];
    if fence != 0 {
        template.push("wgmma.fence.sync.aligned;".to_owned());
    }
    for step in 0..steps {
        let mut line = format!("add.s64 b, {{{b_at}}}, {}; ", step * b_step);
        let operand = if a.is_some() {
            // Writing to a string does not fail.
            let _ = write!(line, "add.s64 a, {{{a_at}}}, {}; ", step * a_step);
            "a".to_owned()
        } else {
            register_list(a_at + 4 * step as usize, 4)
        };
        let predicate = if step == 0 { "p" } else { "q" };
        let _ = write!(
            line,
            "wgmma.mma_async.sync.aligned.m64n{n}k{}.{} {}, {operand}, b, {predicate}",
            inputs.k,
            inputs.types,
            register_list(0, n_registers)
        );
        if !inputs.integer {
            line.push_str(", 1, 1");
        }
        if inputs.transposable {
            if a.is_some() {
                let _ = write!(line, ", {}", transpose[0]);
            }
            let _ = write!(line, ", {}", transpose[1]);
        }
        line.push(';');
        template.push(line);
    }
    template.push(if commit != 0 { "wgmma.commit_group.sync.aligned; }}" } else { "}}" }.to_owned());
    let indices = 0..n_registers;
    let a_operands = match (&a, &a_registers) {
        (Some(a), None) => quote!(in(reg64) { let a: u64 = #a; a }),
        (None, Some(_)) => {
            let each = (0..steps as usize).flat_map(|step| (0..4usize).map(move |i| (step, i)));
            let operands = each.map(|(step, i)| quote!(in(reg32) a_registers[#step][#i]));
            quote!(#(#operands),*)
        }
        _ => return Err(Error::new(proc_macro2::Span::call_site(), "expected either a = … or a_registers = …")),
    };
    let bind = a_registers.map(|a| {
        let steps = steps as usize;
        quote!(let a_registers: [[u32; 4]; #steps] = #a;)
    });
    Ok(quote! {{
        let d = &mut *#d;
        #bind
        core::arch::asm!(
            #(#template,)*
            #(inout(reg32) d[#indices],)*
            in(reg64) { let b: u64 = #b; b },
            in(reg32) { let accumulate: u32 = #accumulate; accumulate },
            #a_operands,
            options(nostack)
        );
    }})
}

/// Expands `wgmma_wait!`.
pub fn wait(input: TokenStream) -> syn::Result<TokenStream> {
    let mut pairs: Pairs = syn::parse2(input)?;
    let (d, registers, pending) =
        (pairs.need("d")?, pairs.number("registers", None)? as usize, pairs.number("pending", Some(0))?);
    let a_registers = pairs.take("a_registers");
    let steps = pairs.number("steps", Some(if a_registers.is_some() { 1 } else { 0 }))? as usize;
    pairs.end()?;
    // The operands stand in a comment: the wait reads and writes them as far as the compiler knows.
    let operands = register_list(0, registers + 4 * steps);
    let template = format!("wgmma.wait_group.sync.aligned {pending}; // {operands}");
    let indices = 0..registers;
    let bind = a_registers.map(|a| quote!(let a_registers = &mut *#a;));
    let a_operands = (0..steps).flat_map(|step| (0..4usize).map(move |i| quote!(a_registers[#step][#i])));
    Ok(quote! {{
        let d = &mut *#d;
        #bind
        core::arch::asm!(#template, #(inout(reg32) d[#indices],)* #(inout(reg32) #a_operands,)* options(nostack));
    }})
}
