use super::*;
use crate::testdist::{chi_square_excess, ks_critical, ks_distance};
use std::collections::BTreeSet;

fn space(text: &str) -> Keyspace {
    let config: MemcachedConfig = toml::from_str(text).unwrap();
    assert_eq!(config.validate(), Ok(()));
    assert_eq!(toml::from_str::<MemcachedConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
    Keyspace::new(&config, 3, 0x1234_5678)
}

fn key(space: &Keyspace, index: u64) -> String {
    let mut text = Vec::new();
    space.put_key(index, &mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn keys_are_unique_and_have_valid_lengths() {
    for text in [
        "",
        "key = \"8B\"",
        "lengths = \"etc\"",
        "lengths = { zipf = { from = \"10B\", to = \"100B\", skew = 0.5 } }",
    ] {
        let space = space(&format!("keys = 20000\n{text}"));
        let keys: BTreeSet<String> = (0..20_000).map(|index| key(&space, index)).collect();
        assert_eq!(keys.len(), 20_000, "{text}");
        assert!(keys.iter().all(|key| (8..=250).contains(&key.len()) && !key.contains(' ')), "{text}");
    }
    assert_eq!(key(&space(""), 41), "0300015---------");
}

#[test]
fn zipf_lengths_follow_zipfs_law() {
    let space = space("lengths = { zipf = { from = \"10B\", to = \"100B\", skew = 0.5 } }");
    let count = 200_000u64;
    let weights: Vec<f64> = (1..=91).map(|rank| (rank as f64).powf(-0.5)).collect();
    let expected: Vec<f64> = weights.iter().map(|w| w / weights.iter().sum::<f64>() * count as f64).collect();
    for of_value in [false, true] {
        let mut counts = vec![0; 91];
        for index in 0..count {
            let length = if of_value { space.value_len(index) } else { key(&space, index).len() };
            counts[length - 10] += 1;
        }
        assert!(chi_square_excess(&counts, &expected) < 4.0, "{counts:?}");
    }
}

#[test]
fn etc_lengths_follow_their_closed_forms() {
    let law = LengthLaw::Etc;
    let count = 20_000u64;
    let uniform = |index: u64| hash(index ^ 0x77);
    let extreme = |x: f64| (-(1.0 + 0.078688 * (x - 30.7984) / 8.20449).powf(-1.0 / 0.078688)).exp();
    let pareto = |x: f64| 1.0 - (1.0 + 0.348238 * (x - 15.0) / 214.476).powf(-1.0 / 0.348238);
    // Lengths are rounded, so spread each over its rounding interval.
    let spread = |length: u64, index: u64| length as f64 - 0.5 + unit(hash(index));
    let mut keys: Vec<f64> = (0..count).map(|index| spread(law.key(uniform(index)), index)).collect();
    assert!(ks_distance(&mut keys, &extreme) < 1.5 * ks_critical(count));
    // Longer values are truncated.
    let lengths = (0..count).map(|index| (law.value(uniform(index)), index)).filter(|length| length.0 < 1024);
    let mut values: Vec<f64> = lengths.map(|(length, index)| spread(length, index)).collect();
    let share = values.len() as f64 / count as f64;
    assert!((share - pareto(1_023.5)).abs() < 0.01, "{share} are not truncated");
    let critical = 1.5 * ks_critical(values.len() as u64);
    assert!(ks_distance(&mut values, &|x| pareto(x) / pareto(1_023.5)) < critical);
}

#[test]
fn popularity_and_set_share_match_the_configuration() {
    let space = space("keys = 100\nsets = 0.2\npopularity = { zipf = { skew = 0.99 } }");
    let count = 100_000u64;
    let weights: Vec<f64> = (1..=100).map(|rank| (rank as f64).powf(-0.99)).collect();
    let expected: Vec<f64> = weights.iter().map(|w| w / weights.iter().sum::<f64>() * count as f64).collect();
    let mut counts = vec![0; 100];
    (0..count).for_each(|sequence| counts[space.key_of_request(sequence) as usize] += 1);
    assert!(chi_square_excess(&counts, &expected) < 4.0);
    let stores = (0..count).filter(|sequence| space.is_set(*sequence)).count() as f64;
    assert!((stores - 20_000.0).abs() < 5.0 * (count as f64 * 0.2 * 0.8).sqrt(), "{stores}");
    let always = self::space("sets = 1");
    assert!((0..1_000).all(|sequence| always.is_set(sequence)));
    assert!((0..1_000).all(|sequence| !self::space("").is_set(sequence)));
}

#[test]
fn errors_name_out_of_range_values() {
    for (text, part) in [
        ("keys = 0", "keys"),
        ("key = \"7B\"", "key is 7"),
        ("key = \"251B\"", "key"),
        ("value = \"1025B\"", "value"),
        ("clients = 0", "clients"),
        ("shards = 17", "shards"),
        ("sets = 1.5", "sets"),
        ("lengths = { zipf = { from = \"9B\", to = \"8B\", skew = 1 } }", "lengths"),
        ("lengths = { zipf = { from = \"9B\", to = \"90B\", skew = 11 } }", "lengths"),
        ("popularity = { zipf = { skew = 10.5 } }", "popularity"),
        ("keys = 2000000\npopularity = { zipf = { skew = 1 } }", "keys"),
    ] {
        let config: MemcachedConfig = toml::from_str(text).unwrap();
        let problem = config.validate().expect_err(text);
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn single_shard_is_omitted_from_text_but_saved() {
    use crate::TrafficConfig;
    for (text, shards) in [("clients = 1024", 1), ("clients = 1024\nshards = 4", 4)] {
        let memcached: MemcachedConfig = toml::from_str(text).unwrap();
        assert_eq!(toml::to_string(&memcached).unwrap().contains("shards"), shards > 1);
        let traffic = TrafficConfig { memcached, ..TrafficConfig::default() };
        let saved = postcard::to_stdvec(&traffic).unwrap();
        assert_eq!(postcard::from_bytes::<TrafficConfig>(&saved).unwrap(), traffic);
    }
}
