//! Enums with a word for every variant.

/// Implements `Display` and `FromStr` for a field-less enum by a table of words.
#[macro_export]
macro_rules! text_enum {
    ($name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word used in problem texts.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err(format!("expected one of {}, given {text:?}", [$($word),*].join(", "))),
                }
            }
        }
    };
}
