//! `--frame-size`: one size, one mix, or a list of them, each with its own table.
//!
//! Commas separate both the sizes of a list and the weighted parts of a mix. A text with a weight (`7x64B`)
//! is a mix: `64,512` are two sizes, `1x64,1x512` is one mix of two, and `64,imix` is a size and a mix.

use std::convert::Infallible;
use std::str::FromStr;

/// Sizes and mixes, each measured separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameSizes(pub Vec<String>);

impl FromStr for FrameSizes {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<FrameSizes, Infallible> {
        let has_weight = |part: &str| {
            part.trim().split_once('x').is_some_and(|(weight, _)| {
                !weight.is_empty() && weight.bytes().all(|digit| digit.is_ascii_digit())
            })
        };
        let parts = text.split(',');
        Ok(match parts.clone().any(has_weight) {
            true => FrameSizes(vec![text.to_owned()]),
            false => FrameSizes(parts.map(|part| part.trim().to_owned()).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_weights_is_one_mix_and_commas_otherwise_separate_sizes() {
        for (text, all) in [
            ("64", &["64"][..]),
            ("64,512B, 1518", &["64", "512B", "1518"]),
            ("7x64B,4x594B,1x1518B", &["7x64B,4x594B,1x1518B"]),
            ("64,1x512", &["64,1x512"]),
            ("imix", &["imix"]),
            ("64,imix,genome:aag", &["64", "imix", "genome:aag"]),
            ("xx", &["xx"]),
            ("64,", &["64", ""]),
        ] {
            assert_eq!(text.parse::<FrameSizes>().unwrap().0, all, "{text}");
        }
    }
}
