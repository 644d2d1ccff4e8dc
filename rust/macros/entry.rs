// SPDX-License-Identifier: GPL-2.0

//! C entry points: the `unsafe extern "C"` function that `#[export]` generates for a safe one.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::visit_mut::VisitMut;

/// Replaces every lifetime of a type by `'static`: the C representation of a type does not depend on lifetimes.
struct EraseLifetimes;

impl VisitMut for EraseLifetimes {
    fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
        lifetime.ident = format_ident!("static");
    }

    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        reference.lifetime = Some(syn::parse_quote!('static));
        syn::visit_mut::visit_type_mut(self, &mut reference.elem);
    }
}

fn erased(ty: &syn::Type) -> syn::Type {
    let mut ty = ty.clone();
    EraseLifetimes.visit_type_mut(&mut ty);
    ty
}

/// Whether a type has the lifetime `'static`.
struct NamesStatic(bool);

impl VisitMut for NamesStatic {
    fn visit_lifetime_mut(&mut self, lifetime: &mut syn::Lifetime) {
        self.0 |= lifetime.ident == "static";
    }
}

/// Rejects an argument with the lifetime `'static`: no argument outlives the call.
fn check_lifetimes(ty: &syn::Type) -> syn::Result<()> {
    let mut found = NamesStatic(false);
    found.visit_type_mut(&mut ty.clone());
    if found.0 {
        let why = "what C passes is valid until the function returns, and not `'static`";
        return Err(syn::Error::new_spanned(ty, why));
    }
    Ok(())
}

/// The types that C passes as two arguments, a pointer and a number: `FromCPair`.
const PAIRS: [&str; 3] = ["BytesIn", "BytesOut", "SliceOut"];

/// The last segment of a type's path.
fn name_of(ty: &syn::Type) -> Option<&syn::Ident> {
    let syn::Type::Path(path) = ty else {
        return None;
    };
    path.path.segments.last().map(|last| &last.ident)
}

/// Whether a parameter is the token that the C entry point makes instead of taking it from C.
fn is_token(ty: &syn::Type) -> bool {
    let syn::Type::Reference(reference) = ty else {
        return false;
    };
    name_of(&reference.elem).is_some_and(|name| name == "MaySleep")
}

/// Whether a parameter is two arguments of C.
fn is_pair(ty: &syn::Type) -> bool {
    name_of(ty).is_some_and(|name| PAIRS.iter().any(|pair| name == pair))
}

/// Generates the C entry point of a safe function. It has the function's name in C, and converts the arguments from C and
/// the result to C.
pub(crate) fn expand(function: &syn::ItemFn) -> syn::Result<TokenStream> {
    let name = &function.sig.ident;
    let mut parameters = Vec::new();
    let mut conversions = Vec::new();
    let mut arguments = Vec::new();
    for (nth, input) in function.sig.inputs.iter().enumerate() {
        let syn::FnArg::Typed(input) = input else {
            return Err(syn::Error::new_spanned(
                input,
                "a C entry point has no `self`",
            ));
        };
        let argument = format_ident!("argument_{nth}");
        arguments.push(argument.clone());
        if is_token(&input.ty) {
            conversions.push(quote! {
                // SAFETY: By the header the function may sleep, so C calls it in process context, without locks that
                // forbid sleeping.
                let #argument = &unsafe { ::kernel_ext::context::MaySleep::assume() };
            });
            continue;
        }
        check_lifetimes(&input.ty)?;
        let ty = erased(&input.ty);
        if is_pair(&input.ty) {
            let count = format_ident!("argument_{nth}_count");
            parameters.push(quote! { #argument: <#ty as ::kernel_ext::entry::FromCPair>::Pointer });
            parameters.push(quote! { #count: usize });
            conversions.push(quote! {
                // SAFETY: By the safety requirements C passes what the header requires, valid during the call.
                let #argument = unsafe { ::kernel_ext::entry::FromCPair::from_c(#argument, #count) };
            });
            continue;
        }
        parameters.push(quote! { #argument: <#ty as ::kernel_ext::entry::FromC>::Raw });
        conversions.push(quote! {
            // SAFETY: By the safety requirements C passes what the header requires, valid during the call.
            let #argument = unsafe { ::kernel_ext::entry::FromC::from_c(#argument) };
        });
    }
    let output = match &function.sig.output {
        syn::ReturnType::Default => quote! { () },
        syn::ReturnType::Type(_, ty) => {
            let ty = erased(ty);
            quote! { <#ty as ::kernel_ext::entry::IntoC>::Raw }
        }
    };
    let symbol = name.to_string();
    Ok(quote! {
        const _: () = {
            /// The C entry point.
            ///
            /// # Safety
            ///
            /// The arguments are those that the C header requires, and valid during the call.
            #[export_name = #symbol]
            unsafe extern "C" fn entry(#(#parameters),*) -> #output {
                #(#conversions)*
                ::kernel_ext::entry::IntoC::into_c(#name(#(#arguments),*))
            }
            // The two branches have one type only if the signatures are the same.
            if true { ::kernel_ext::export::header::#name } else { entry };
        };
    })
}
