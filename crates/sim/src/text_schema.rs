//! JSON Schema of configuration values that are written as text, used to generate the parameter reference.

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
