//! The JSON schema of a configuration, for editors and other programs. It is draft 2020-12, with two extension keywords:
//! `x-value` (format of a text, with an example) and `x-units` (unit suffixes of numbers).

use doorbell_machine::{PLACEMENTS, Placement};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::range::Range;
use super::{defaults, sections};
use crate::plan::config::RunConfig;
use crate::request::network::keys_of_the_run;

/// The section with the parameters of a network's nodes.
const NODE: &str = "node";
/// The key whose value may be a word instead of a table.
const ATTACH: &str = "attach";

/// The schema of a machine's file, and of a result's `config.toml`.
pub fn schema() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    // Inlined, since first- and second-level caches share a type but have different defaults.
    settings.inline_subschemas = true;
    let mut generator = SchemaGenerator::new(settings);
    let mut whole = generator.root_schema_for::<RunConfig>().to_value();
    let own = sections().schemas(&mut generator);
    let known = properties(&mut whole).expect("a configuration is a table");
    let mut all = Map::new();
    for (name, part) in std::mem::take(known) {
        all.insert(name, part);
        if all.len() == 1 {
            // The option sections are written after `run`.
            all.extend(own.iter().map(|(name, part)| ((*name).to_owned(), part.clone().to_value())));
        }
    }
    let of_the_run = keys_of_the_run();
    let mut machine = all.clone();
    machine.retain(|name, _| !of_the_run.contains(&name.as_str()));
    *known = all;
    let node = known[NODE]["additionalProperties"].as_object_mut().expect("nodes are tables by their names");
    let keys = node.get_mut("properties").and_then(Value::as_object_mut).expect("a node is a table");
    keys.extend(machine);
    node.insert("additionalProperties".to_owned(), false.into());
    let defaults = serde_json::to_value(defaults()).expect("TOML can be JSON");
    finish(&mut whole, Some(&defaults));
    let root = whole.as_object_mut().expect("a schema of a table is a table");
    root.insert("title".to_owned(), "A Doorbell machine and the settings of its runs".into());
    root.remove("default");
    let base = json!({
        "type": "string",
        "description": "The base that this file overrides: a preset, or the path of another file, relative to this one."
    });
    if let Some(Value::Object(known)) = root.get_mut("properties") {
        known.insert("base".to_owned(), base);
    }
    whole
}

/// The properties of a table's schema.
fn properties(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.get_mut("properties")?.as_object_mut()
}

/// Adds what the types' own schemas lack: defaults of the whole configuration, ranges of numbers, and placement words.
fn finish(schema: &mut Value, default: Option<&Value>) {
    let Some(map) = schema.as_object_mut() else { return };
    without_null(map);
    one_line(map);
    if let Some(value) = default.filter(|value| !value.is_object()) {
        map.insert("default".to_owned(), value.clone());
    }
    if map.contains_key("properties") {
        map.remove("default");
    }
    let names = |name: &Value| matches!(name.as_str(), Some("integer" | "number"));
    if map.get("type").is_some_and(names)
        && let Some(Value::String(meaning)) = map.get("description")
        && let Some(range) = Range::of(meaning, &[])
    {
        range.put_into(map);
    }
    for (key, part) in map.iter_mut() {
        match (key.as_str(), part) {
            ("properties", Value::Object(parts)) => {
                for (name, part) in parts.iter_mut() {
                    let default = default.map(|all| all.get(name).unwrap_or(&Value::Null));
                    finish_property(name, part, default);
                }
            }
            ("oneOf" | "anyOf", Value::Array(parts)) => parts.iter_mut().for_each(|part| finish(part, None)),
            ("items" | "additionalProperties", part) => finish(part, None),
            _ => {}
        }
    }
}

/// Completes the schema of one key. A key whose default depends on other settings has none in the schema.
fn finish_property(name: &str, part: &mut Value, default: Option<&Value>) {
    if let (Some(Value::Null), Some(map)) = (default, part.as_object_mut()) {
        map.remove("default");
    }
    finish(part, default.filter(|value| !value.is_null()));
    if name == ATTACH && part.get("properties").is_some() {
        let meaning = part.get("description").cloned().unwrap_or_default();
        let word = |place: &Placement| json!({ "const": place.name, "description": place.summary });
        let words: Vec<Value> = PLACEMENTS.iter().map(word).collect();
        let table = std::mem::take(part);
        *part = json!({ "description": meaning, "anyOf": [table, { "oneOf": words }] });
    }
}

/// Removes null types and defaults: TOML has no null, and optional keys are left out.
fn without_null(map: &mut Map<String, Value>) {
    let is_null = |part: &Value| part.get("type").and_then(Value::as_str) == Some("null");
    if let Some(Value::Array(names)) = map.get_mut("type") {
        names.retain(|name| name != "null");
        if let [only] = &names[..] {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(parts)) = map.get_mut("anyOf")
        && parts.iter().any(is_null)
    {
        parts.retain(|part| !is_null(part));
        if let [Value::Object(only)] = &mut parts[..] {
            let only = std::mem::take(only);
            map.remove("anyOf");
            for (key, value) in only {
                map.entry(key).or_insert(value);
            }
        }
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.remove("default");
    }
}

/// Joins the lines of each paragraph of a doc comment.
fn one_line(map: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = map.get_mut("description") {
        let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
}
