//! Refusals that handlers answer and the document shows, each once.

/// Declares refusals: when each comes, its name, the values that it tells with those of its example, and how
/// it is made. The module `example` has the example of each, under the same name.
macro_rules! refusals {
    ($refusal:ty: $(#[doc = $summary:literal] $name:ident($($told:ident = $example:expr),*) => $made:expr;)+) => {
        $(
            #[doc = $summary]
            pub(crate) fn $name($($told: impl std::fmt::Display),*) -> $refusal {
                $made
            }
        )+

        /// The same refusals, as the document shows them.
        pub(crate) mod example {
            use super::*;

            $(
                #[doc = $summary]
                pub(crate) fn $name() -> $crate::openapi::Example<$refusal> {
                    let refusal = super::$name($($example),*);
                    $crate::openapi::Example::new(stringify!($name), $summary.trim_ascii(), refusal)
                }
            )+
        }
    };
}
pub(crate) use refusals;
