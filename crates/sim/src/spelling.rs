//! How configuration files spell what is no plain number, truth value or word: told to the schema from which the reference of parameters
//! is made. What a parameter means says its own doc comment; this is what can be written.

/// Tells the schema that a type is spelt as text: what it is, with an example, and what goes behind its numbers.
///
/// `x-value` and `x-units` are no words of JSON Schema, which lets a schema have such.
#[macro_export]
macro_rules! spelt_as_text {
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
