//! Parameters, extracted from the JSON schema.

use serde_json::Value;

use super::range::Range;

/// A key of a configuration: a value, or a table with further keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Path, with `N`, `NAME` and `[]` for parts that the user chooses.
    pub path: String,
    /// Meaning, from the doc comment.
    pub meaning: String,
    /// Description of the accepted values; empty for a table.
    pub value: String,
    /// Unit suffixes of its numbers.
    pub units: Vec<String>,
    /// Accepted words, for an enumeration.
    pub words: Vec<Word>,
    /// Accepted range of its numbers, if bounded.
    pub range: Option<Range>,
    /// Default value in the syntax of `--set`; `None` if it depends on other settings.
    pub default: Option<String>,
    /// Whether it is a table of keys.
    pub is_table: bool,
}

/// One accepted word of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: String,
    /// Meaning.
    pub meaning: String,
}

impl Parameter {
    /// Whether `path` matches this parameter's path, with numbers and names of the user in place of `N` and `NAME`.
    pub fn is_at(&self, path: &str) -> bool {
        let (mut own, mut given) = (self.path.split('.'), path.split('.'));
        loop {
            match (own.next(), given.next()) {
                (None, None) => return true,
                (Some("N"), Some(part)) if part == "N" || part.parse::<u32>().is_ok() => {}
                (Some("NAME"), Some(part)) if !part.is_empty() => {}
                (Some(own), Some(part)) if matches_part(own, part) => {}
                _ => return false,
            }
        }
    }

    /// The last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or(&self.path)
    }

    /// The path of its table.
    pub fn table(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Its range in words.
    pub fn range_text(&self) -> Option<String> {
        self.range.as_ref().map(Range::text)
    }

    /// The first sentence of the meaning.
    pub fn in_short(&self) -> &str {
        let end = self.meaning.find(". ").map_or(self.meaning.len(), |end| end + 1);
        &self.meaning[..end]
    }
}

/// Whether a part of the user's path matches a part of the parameter's path, in which list entries have no number.
fn matches_part(own: &str, part: &str) -> bool {
    let bare = part.split('[').next().unwrap_or(part);
    own == part || own.strip_suffix("[]").is_some_and(|name| name == bare)
}

/// All parameters of a schema.
pub fn of_schema(schema: &Value) -> Vec<Parameter> {
    let mut all = Vec::new();
    tables(schema, "", &mut all);
    // `base` is a key of files only, not of configurations.
    all.retain(|known| known.path != "base");
    all
}

/// The parameters of a table.
fn tables(schema: &Value, path: &str, all: &mut Vec<Parameter>) {
    for (name, part) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        one(part, &path, all);
    }
}

fn one(schema: &Value, path: &str, all: &mut Vec<Parameter>) {
    let meaning = text(schema, "description");
    // A table that may be replaced by a word.
    if let Some([table, words]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice) {
        let words = words_of(words);
        all.push(Parameter { meaning, words, ..table_at(path) });
        return tables(table, path, all);
    }
    if schema.get("properties").is_some() {
        all.push(Parameter { meaning, ..table_at(path) });
        return tables(schema, path, all);
    }
    if let Some(of_each) = schema.get("additionalProperties").filter(|part| part.is_object()) {
        let key = if matches!(path, "port" | "hart") { "N" } else { "NAME" };
        all.push(Parameter { meaning, ..table_at(path) });
        let path = format!("{path}.{key}");
        all.push(Parameter { meaning: text(of_each, "description"), ..table_at(&path) });
        return tables(of_each, &path, all);
    }
    if let Some(items) = schema.get("items").filter(|items| items.get("properties").is_some()) {
        let path = format!("{path}[]");
        all.push(Parameter { meaning, value: "a list of tables".to_owned(), ..table_at(&path) });
        return tables(items, &path, all);
    }
    all.push(leaf(schema, path, meaning));
    for variant in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        for (word, keys) in variant.get("properties").and_then(Value::as_object).into_iter().flatten() {
            tables(keys, &format!("{path}.{word}"), all);
        }
    }
}

fn table_at(path: &str) -> Parameter {
    Parameter {
        path: path.to_owned(),
        meaning: String::new(),
        value: String::new(),
        units: Vec::new(),
        words: Vec::new(),
        range: None,
        default: None,
        is_table: true,
    }
}

fn leaf(schema: &Value, path: &str, meaning: String) -> Parameter {
    let words = words_of(schema);
    let items = schema.get("items").unwrap_or(&Value::Null);
    let units: Vec<String> = strings(schema, "x-units");
    let known: Vec<&str> = units.iter().map(String::as_str).collect();
    let value = match (text(schema, "x-value"), &words[..]) {
        (text, _) if !text.is_empty() => text,
        (_, [_, ..]) => "one of the words below".to_owned(),
        _ if items.is_object() => format!("a list, each entry {}", value_of(items)),
        _ => value_of(schema),
    };
    let counts = !matches!(value.as_str(), "text" | "true or false") && words.is_empty();
    let range = counts.then(|| Range::of(&meaning, &known)).flatten();
    let default = schema.get("default").map(|default| match default {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    Parameter { meaning, value, units, words, range, default, is_table: false, ..table_at(path) }
}

/// Description of the accepted values: `x-value` if present, otherwise from the JSON type.
fn value_of(schema: &Value) -> String {
    let described = text(schema, "x-value");
    if !described.is_empty() {
        return described;
    }
    let known = |name: &str| match (name, schema.get("format").and_then(Value::as_str)) {
        ("integer", _) => "a whole number",
        ("number", _) => "a number",
        ("boolean", _) => "true or false",
        ("string", Some("ipv4")) => "an IPv4 address",
        ("string", Some("ip" | "ipv6")) => "an IP address",
        ("string", _) => "text",
        _ => "a table",
    };
    match schema.get("type") {
        Some(Value::String(name)) => known(name).to_owned(),
        _ => "a table".to_owned(),
    }
}

/// The words of an enumeration. A word with its own keys is written as a table.
fn words_of(schema: &Value) -> Vec<Word> {
    let mut all = Vec::new();
    let plain = strings(schema, "enum").into_iter();
    all.extend(plain.map(|name| Word { name, meaning: String::new() }));
    for variant in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        let meaning = text(variant, "description");
        match (variant.get("const"), variant.get("properties").and_then(Value::as_object)) {
            (Some(Value::String(name)), _) => all.push(Word { name: name.clone(), meaning }),
            (_, Some(keys)) => all.extend(keys.iter().map(|(name, part)| with_keys(name, part, &meaning))),
            _ => all.extend(words_of(variant)),
        }
    }
    all
}

fn with_keys(name: &str, part: &Value, meaning: &str) -> Word {
    let keys = part.get("properties").and_then(Value::as_object);
    let keys: Vec<&str> = keys.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    Word { name: format!("{{ {name} = {{ {} = … }} }}", keys.join(", ")), meaning: meaning.to_owned() }
}

fn text(schema: &Value, key: &str) -> String {
    schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn strings(schema: &Value, key: &str) -> Vec<String> {
    let all = schema.get(key).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}
