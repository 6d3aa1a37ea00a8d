//! The attribute macros of `cuda_std`.

mod wgmma;

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, ItemFn, LitInt, LitStr, Token, parse_macro_input};

/// What may stand in the parentheses of `#[kernel(...)]`.
#[derive(Default)]
struct Options {
    threads: u32,
    min_blocks: u32,
    cluster: u32,
    hopper: bool,
    allow_local: bool,
    tensor_maps: u32,
    unroll: u32,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Options::default();
        let pairs = Punctuated::<Pair, Token![,]>::parse_terminated(input)?;
        for Pair { key, value } in pairs {
            match (key.to_string().as_str(), value) {
                ("threads", Value::Number(n)) => options.threads = n,
                ("min_blocks", Value::Number(n)) => options.min_blocks = n,
                ("cluster", Value::Number(n)) => options.cluster = n,
                ("tensor_maps", Value::Number(n)) => options.tensor_maps = n,
                ("unroll", Value::Number(n)) => options.unroll = n,
                ("arch", Value::Text(text)) if text == "sm_90a" => options.hopper = true,
                ("arch", Value::Text(text)) if text == "sm_80" => options.hopper = false,
                ("allow_local", Value::Text(_)) => options.allow_local = true,
                _ => {
                    let known = "expected threads = n, min_blocks = n, cluster = n, tensor_maps = n, \
                                 unroll = n, arch = \"sm_80\" or \"sm_90a\", allow_local = \"reason\"";
                    return Err(Error::new(key.span(), known));
                }
            }
        }
        Ok(options)
    }
}

struct Pair {
    key: Ident,
    value: Value,
}

enum Value {
    Number(u32),
    Text(String),
}

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = if input.peek(LitInt) {
            Value::Number(input.parse::<LitInt>()?.base10_parse()?)
        } else {
            Value::Text(input.parse::<LitStr>()?.value())
        };
        Ok(Pair { key, value })
    }
}

/// Makes an `unsafe fn` a kernel entry, with its launch bounds.
///
/// Options, all optional: `threads` (the block size, `.maxntid`), `min_blocks` (per multiprocessor, `.minnctapersm`),
/// `cluster` (blocks along x, `.reqnctapercluster`), `arch = "sm_90a"` for a Hopper kernel (else the portable
/// baseline `sm_80`), `tensor_maps = n` when the parameter struct begins with n tensor maps (its alignment becomes
/// 64), `unroll = n` to have loops of constant length unroll up to a cost of n (the kernels of a PTX file share the
/// largest), `allow_local = "reason"` for a kernel that needs local memory.
///
/// The function exists only for `nvptx64`. Beside it stands a static that tells `cuda_builder` the options; the
/// builder takes it out of the PTX.
#[proc_macro_attribute]
pub fn kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(args as Options);
    let function = parse_macro_input!(item as ItemFn);
    if function.sig.unsafety.is_none() {
        return Error::new_spanned(&function.sig, "a kernel is an unsafe fn: it takes addresses on trust")
            .to_compile_error()
            .into();
    }
    let (attributes, visibility, block) = (&function.attrs, &function.vis, &function.block);
    let (name, inputs) = (&function.sig.ident, &function.sig.inputs);
    let marker = format_ident!("__cuda_kernel_{}", name);
    let arch = if options.hopper { 90u32 } else { 80 };
    let (threads, min_blocks, cluster) = (options.threads, options.min_blocks, options.cluster);
    let (allow_local, tensor_maps, unroll) = (u32::from(options.allow_local), options.tensor_maps, options.unroll);
    quote! {
        #(#attributes)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(no_mangle)]
        #visibility unsafe extern "ptx-kernel" fn #name(#inputs) #block

        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        #[used]
        #[allow(non_upper_case_globals)]
        pub static #marker: [u32; 8] =
            [1, #threads, #min_blocks, #cluster, #arch, #allow_local, #tensor_maps, #unroll];
    }
    .into()
}

/// The products of one k-block by a warpgroup: fence, `steps` `wgmma.mma_async`, commit. See `cuda_std::wgmma`.
#[proc_macro]
pub fn wgmma(input: TokenStream) -> TokenStream {
    wgmma::product(input.into()).unwrap_or_else(Error::into_compile_error).into()
}

/// Waits for all but `pending` committed blocks. See `cuda_std::wgmma`.
#[proc_macro]
pub fn wgmma_wait(input: TokenStream) -> TokenStream {
    wgmma::wait(input.into()).unwrap_or_else(Error::into_compile_error).into()
}
