//! The macro for enums whose variants are words, such as `general` and `local_life`. One table gives
//! the enum, its list of variants, and the words for JSON, settings, command line and database.

/// Declares an enum with one word for each variant:
///
/// ```
/// domain::word_enum! {
///     /// A size.
///     pub enum Size {
///         /// Up to ten.
///         Small = "small",
///         /// More than ten.
///         Large = "large",
///     }
/// }
///
/// assert_eq!(Size::ALL.map(Size::as_str), ["small", "large"]);
/// assert_eq!(Size::parse("large"), Ok(Size::Large));
/// assert_eq!("tiny".parse::<Size>().unwrap_err().to_string(), "expected small or large");
/// ```
#[macro_export]
macro_rules! word_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $($(#[$of_variant:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$of_variant])* $variant,)+
        }

        impl $name {
            /// Every variant, in the order of the enum.
            pub const ALL: [Self; [$(Self::$variant),+].len()] = [$(Self::$variant),+];
            /// The words of all variants, in the same order.
            pub const WORDS: [&'static str; Self::ALL.len()] = [$($word),+];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// Reads a word.
            ///
            /// # Errors
            /// Text that is none of the words.
            pub fn parse(text: &str) -> Result<Self, $crate::fields::Expected> {
                let found = Self::ALL.into_iter().find(|variant| variant.as_str() == text);
                found.ok_or_else(|| $crate::fields::Expected::one_of(&Self::WORDS))
            }
        }

        $crate::text_traits!($name, { "type": "string", "enum": &Self::WORDS[..] });
    };
}

/// Implements what follows from `as_str` and `parse` of a type: `Display`, `FromStr`, `Serialize`,
/// `Deserialize`, and `JsonSchema` with this schema.
#[doc(hidden)]
#[macro_export]
macro_rules! text_traits {
    ($name:ident, $schema:tt) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::fields::Expected;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(|expected| {
                    let got = $crate::fields::shown(&text);
                    ::serde::de::Error::custom(format!("{expected}, got {got}"))
                })
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!($schema)
            }
        }
    };
}
