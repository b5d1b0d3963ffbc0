//! Serde and JSON Schema of configuration values that are written as text. The schema is used to generate the
//! parameter reference.

/// Implements the schema of a type written as text: a description with an example, and its units.
///
/// `x-value` and `x-units` are extensions, which JSON Schema permits.
#[macro_export]
macro_rules! text_schema {
    ($name:ident, $value:expr, $units:expr) => {
        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let units: &[&str] = $units;
                ::schemars::json_schema!({ "type": "string", "x-value": $value, "x-units": units })
            }
        }
    };
}

/// Implements serde for a type that `Display` and `FromStr` convert to and from text. With the type of its
/// only field as second argument, binary formats store that field instead.
#[macro_export]
macro_rules! text_serde {
    ($name:ident $(, $field:ty)?) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $(if !serializer.is_human_readable() {
                    return <$field as ::serde::Serialize>::serialize(&self.0, serializer);
                })?
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $(if !deserializer.is_human_readable() {
                    return <$field as ::serde::Deserialize>::deserialize(deserializer).map($name);
                })?
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}
