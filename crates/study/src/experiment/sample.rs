//! Random samples of parameter values, identical on every host.

use doorbell_sim::rng::Rng;

use super::file::{Choice, Random, Range};
use super::plan::ExperimentError;
use super::value::as_set;

/// Draws the points of a random sample: parameters and values of each.
pub(super) fn draw(random: &Random) -> Result<Vec<Vec<(String, String)>>, ExperimentError> {
    let wrong = |path: &str, problem: String| {
        ExperimentError::File(format!("random.parameters.\"{path}\": {problem}"))
    };
    let mut streams = Vec::new();
    for (path, choice) in &random.parameters {
        match choice {
            Choice::Values(values) if values.is_empty() => return Err(wrong(path, "has no values".into())),
            Choice::Values(_) => {}
            Choice::Range(range) => range.check().map_err(|problem| wrong(path, problem))?,
        }
        // One random stream per parameter, so that adding a parameter does not change the others' values.
        streams.push((path, choice, Rng::stream(random.seed, path)));
    }
    let mut points = Vec::new();
    for _ in 0..random.points {
        let mut point = Vec::new();
        for (path, choice, rng) in &mut streams {
            let value = match choice {
                Choice::Values(values) => as_set(path, &values[rng.below(values.len() as u64) as usize])?,
                Choice::Range(range) => range.draw(rng),
            };
            point.push(((*path).clone(), value));
        }
        points.push(point);
    }
    Ok(points)
}

/// A range is divided into 2 to the power of this many steps.
const HALVINGS: u32 = 10;

impl Range {
    fn check(&self) -> Result<(), String> {
        if !(self.from.is_finite() && self.to.is_finite() && self.from <= self.to) {
            return Err(format!("from {} to {} is not a range", self.from, self.to));
        }
        if self.log && self.from <= 0.0 {
            return Err("a logarithmic range must start above zero".to_owned());
        }
        if self.whole && self.from.ceil() > self.to.floor() {
            return Err(format!("there is no whole number from {} to {}", self.from, self.to));
        }
        Ok(())
    }

    fn draw(&self, rng: &mut Rng) -> String {
        let part = rng.below((1 << HALVINGS) + 1);
        let value = match self.log {
            true => self.from * power(self.to / self.from, part),
            false => self.from + (self.to - self.from) * (part as f64 / f64::from(1 << HALVINGS)),
        };
        let value = match self.whole {
            true => value.round().clamp(self.from.ceil(), self.to.floor()),
            false => four_digits(value).clamp(self.from, self.to),
        };
        format!("{value}{}", self.unit)
    }
}

/// `ratio` to the power of a fraction of the range. Uses square roots, which are identical on every host,
/// unlike logarithms.
fn power(ratio: f64, part: u64) -> f64 {
    let mut root = ratio;
    let mut product = if part >> HALVINGS == 1 { ratio } else { 1.0 };
    for bit in (0..HALVINGS).rev() {
        root = root.sqrt();
        if part >> bit & 1 == 1 {
            product *= root;
        }
    }
    product
}

fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number that was just written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(text: &str) -> Random {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn samples_are_in_range_and_reproducible() {
        let random = random(
            "points = 200\nseed = 7\n[parameters]\na = { from = 1, to = 4, unit = \"GHz\", log = true }\n\
             b = { from = 32, to = 512, whole = true }\nc = [\"x\", 3]\n",
        );
        let points = draw(&random).unwrap();
        assert_eq!(points, draw(&random).unwrap());
        assert_eq!(points.len(), 200);
        let mut low = 0;
        for point in &points {
            let ghz: f64 = point[0].1.strip_suffix("GHz").unwrap().parse().unwrap();
            assert!((1.0..=4.0).contains(&ghz));
            low += u32::from(ghz < 2.0);
            assert!((32..=512).contains(&point[1].1.parse::<u32>().unwrap()));
            assert!(["x", "3"].contains(&point[2].1.as_str()));
        }
        // Half of the ratios from 1 to 4 are below 2.
        assert!((80..120).contains(&low), "{low}");
    }

    #[test]
    fn an_invalid_range_is_rejected() {
        for (range, part) in [
            ("{ from = 2, to = 1 }", "not a range"),
            ("{ from = 0, to = 1, log = true }", "above zero"),
            ("{ from = 1.2, to = 1.8, whole = true }", "no whole number"),
            ("[]", "no values"),
        ] {
            let error = draw(&random(&format!("points = 1\n[parameters]\n\"a.b\" = {range}\n"))).unwrap_err();
            assert!(error.to_string().contains(part) && error.to_string().contains("a.b"), "{error}");
        }
    }
}
