// SPDX-License-Identifier: GPL-2.0

//! Procedural macros of the RDMA stack.

mod entry;

use proc_macro::TokenStream;
use quote::quote;
use syn::parse::Parser;

/// Exports a function or a static to C under its own name, as `EXPORT_SYMBOL` does.
///
/// | attribute | equivalent |
/// |---|---|
/// | `#[export]` | `EXPORT_SYMBOL` |
/// | `#[export(GPL)]` | `EXPORT_SYMBOL_GPL` |
/// | `#[export(ns = "X")]` | `EXPORT_SYMBOL_NS(…, "X")` |
/// | `#[export(GPL, ns = "X")]` | `EXPORT_SYMBOL_NS_GPL(…, "X")` |
///
/// The type of the item is checked against the declaration in the C header: an item that the headers do not declare, or
/// declare otherwise, does not compile.
///
/// For a safe function it generates the function that C calls: a *C entry point*, which converts the arguments from C and the
/// result to C by the traits of `kernel_ext::entry`. A `&MaySleep` is no C argument: the C entry point makes it.
///
/// ```
/// # use kernel::prelude::*;
/// # use kernel_ext::{context::MaySleep, export::export};
/// # use rdma::core::{
/// #     object::{Owned, UdataView},
/// #     Pd,
/// # };
/// /// Deallocates a protection domain.
/// #[export]
/// fn ib_dealloc_pd_user(pd: Owned<Pd>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
///     # let _ = (pd, udata, sleep);
///     Ok(())
/// }
/// ```
///
/// A function that is `unsafe extern "C"` already is exported as it is; this is for functions whose entry point cannot be
/// generated. A static is a `kernel_ext::export::Exported<T>` for the `T` of the header, or another `ExportedStatic`.
///
/// C header: `include/linux/export.h`.
#[proc_macro_attribute]
pub fn export(attr: TokenStream, item: TokenStream) -> TokenStream {
    expand_export(attr, item).unwrap_or_else(|err| err.to_compile_error().into())
}

/// The arguments of `#[export(…)]`.
#[derive(Default)]
struct ExportArgs {
    license: &'static str,
    namespace: String,
}

impl ExportArgs {
    fn parse(attr: TokenStream) -> syn::Result<Self> {
        let mut args = Self::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("GPL") {
                args.license = "GPL";
                Ok(())
            } else if meta.path.is_ident("ns") {
                args.namespace = meta.value()?.parse::<syn::LitStr>()?.value();
                Ok(())
            } else {
                Err(meta.error("expected `GPL` or `ns = \"...\"`"))
            }
        });
        parser.parse(attr)?;
        Ok(args)
    }
}

fn expand_export(attr: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let args = ExportArgs::parse(attr)?;
    let item = syn::parse::<syn::Item>(item)?;
    let (name, entry) = match &item {
        syn::Item::Fn(function) if is_door(function) => {
            let name = &function.sig.ident;
            // The two branches have one type only if the signatures are the same.
            let entry = quote! {
                const _: () = { if true { ::kernel_ext::export::header::#name } else { #name }; };
                #[no_mangle]
            };
            (name, entry)
        }
        syn::Item::Fn(function) => (&function.sig.ident, entry::expand(function)?),
        syn::Item::Static(data) => {
            let name = &data.ident;
            let entry = quote! {
                const _: () = {
                    let _: fn() = || {
                        ::kernel_ext::export::check(
                            &raw const ::kernel_ext::export::header::#name,
                            &#name,
                        )
                    };
                };
                #[no_mangle]
            };
            (name, entry)
        }
        other => {
            return Err(syn::Error::new_spanned(
                other,
                "expected a function or a static",
            ))
        }
    };
    // The record that modpost reads: see `___EXPORT_SYMBOL` in <linux/export.h>.
    let record = format!(
        ".section \".export_symbol\",\"a\"\n\
         __export_symbol_{name}:\n\
         .asciz \"{}\"\n\
         .asciz \"{}\"\n\
         .balign 8\n\
         .quad {name}\n\
         .previous",
        args.license, args.namespace
    );
    Ok(quote! {
        ::core::arch::global_asm!(#record);
        #entry
        #item
    }
    .into())
}

/// Whether a function has the C ABI already, or is unsafe: then no entry point is generated.
fn is_door(function: &syn::ItemFn) -> bool {
    function.sig.abi.is_some() || function.sig.unsafety.is_some()
}
