//! Traffic options of the command line: a file of streams, and shortcuts for common cases.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use doorbell_bench::Resolved;
use doorbell_loadgen::{Arrivals, Field, Kind, Sizes, StreamConfig, SweepConfig};
use doorbell_sim::Bytes;
use serde::Deserialize;

use crate::run_args::{TRAFFIC, frame_size};

#[derive(Args, Clone, Default)]
#[command(next_help_heading = TRAFFIC)]
pub struct TrafficArgs {
    /// A file of streams and other traffic settings
    ///
    /// Its tables override loadgen.traffic. --rate is then the total of all streams, and 2x doubles their own
    /// rates.
    #[arg(long, value_name = "FILE")]
    pub traffic: Option<PathBuf>,
    /// Arrival process: constant, jitter, poisson, …
    ///
    /// Default: jitter; for a search, constant, as in RFC 2544. Others have parameters, such as "{ pareto = {
    /// shape = 1.5 } }". A drive node always sends at equal intervals.
    #[arg(long, value_name = "PROCESS")]
    pub arrivals: Option<String>,
    /// Send this many flows in turn, with as many UDP source ports
    #[arg(long, value_name = "N")]
    pub flows: Option<u64>,
}

#[derive(Deserialize)]
struct ArrivalsTable {
    arrivals: Arrivals,
}

impl TrafficArgs {
    /// One of these options that was given, if any.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--traffic", self.traffic.is_some()),
            ("--arrivals", self.arrivals.is_some()),
            ("--flows", self.flows.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// Name and text of the traffic file.
    pub fn file(&self) -> anyhow::Result<Option<(String, String)>> {
        let Some(path) = &self.traffic else { return Ok(None) };
        let text = doorbell_files::read_text(path)
            .with_context(|| format!("--traffic: cannot read {}", path.display()))?;
        Ok(Some((path.display().to_string(), text)))
    }

    /// The configuration with one stream as its traffic if frames differ in size or flow. `frame_size` is the
    /// option's text; a single size needs no stream.
    pub fn apply(&self, frame_size: Option<&str>, config: Resolved) -> anyhow::Result<Resolved> {
        let sizes = frame_size.filter(|text| one_size(text).is_none());
        let option = [("--frame-size", frame_size), ("--arrivals", self.arrivals.as_deref())];
        let option = option.into_iter().find(|(_, given)| given.is_some()).map(|(option, _)| option);
        let option = option.or(self.flows.map(|_| "--flows"));
        let mut traffic = config.loadgen.traffic.clone();
        if let Some(option) = option.filter(|_| !traffic.streams.is_empty()) {
            bail!("{option}: the traffic has streams; set this in the streams instead");
        }
        if let Some(text) = &self.arrivals {
            traffic.arrivals = arrivals(text)?;
        }
        if sizes.is_none() && self.flows.is_none() {
            return Ok(config.with_change(|config| config.loadgen.traffic = traffic)?);
        }
        if traffic.kind != Kind::Frames {
            let option = if sizes.is_some() { "--frame-size" } else { "--flows" };
            bail!(
                "{option}: only test frames can vary, and this traffic consists of requests (loadgen.traffic.kind)"
            );
        }
        if self.flows == Some(0) {
            bail!("--flows: 0 flows carry no traffic; give 1 or more");
        }
        let mut stream = StreamConfig::from_traffic(&traffic);
        if let Some(text) = sizes {
            stream.size = text.parse::<Sizes>().context("--frame-size")?;
        }
        stream.sweeps.extend(self.flows.map(|count| SweepConfig::upwards(Field::SourcePort, count)));
        traffic.streams = vec![stream];
        Ok(config.with_change(|config| config.loadgen.traffic = traffic)?)
    }
}

/// The text as a single frame size; `None` for a mix.
pub fn one_size(text: &str) -> Option<Bytes> {
    frame_size(text).ok()
}

fn arrivals(text: &str) -> anyhow::Result<Arrivals> {
    let quoted = if text.trim_start().starts_with('{') { text.to_owned() } else { format!("{text:?}") };
    let table: Result<ArrivalsTable, _> = toml::from_str(&format!("arrivals = {quoted}"));
    match table {
        Ok(table) => Ok(table.arrivals),
        Err(error) => bail!(
            "--arrivals \"{text}\" is not an arrival process ({}); give constant, jitter, poisson, or one with its parameters such as \
             \"{{ uniform = {{ spread = 0.5 }} }}\" (docs/traffic.md lists all)",
            error.message()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_bench::resolve;

    fn applied(args: &TrafficArgs, frame_size: Option<&str>, overrides: &[&str]) -> Result<Resolved, String> {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let config = resolve("fast", &overrides).unwrap();
        args.apply(frame_size, config).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_shortcut_options_make_one_stream() {
        let args = TrafficArgs { arrivals: Some("poisson".into()), flows: Some(100), traffic: None };
        let config = applied(&args, Some("imix"), &["loadgen.traffic.rate=3Mpps"]).unwrap();
        let [stream] = config.loadgen.traffic.streams.as_slice() else { panic!("one stream") };
        assert_eq!(
            (stream.rate.to_string(), config.loadgen.traffic.arrivals, stream.flows()),
            ("3Mpps".into(), Arrivals::Poisson, 100)
        );
        assert_eq!(stream.size, "imix".parse().unwrap());
        let plain = applied(&TrafficArgs::default(), Some("128"), &[]).unwrap();
        assert_eq!(plain, resolve("fast", &[]).unwrap(), "one size needs no stream");
        let pareto =
            TrafficArgs { arrivals: Some("{ pareto = { shape = 1.5 } }".into()), ..TrafficArgs::default() };
        assert!(applied(&pareto, None, &[]).is_ok());
    }

    #[test]
    fn invalid_values_are_reported_with_their_option() {
        let arrivals = |text: &str| TrafficArgs { arrivals: Some(text.into()), ..TrafficArgs::default() };
        for text in ["poison", "uniform", "{ pareto = { alpha = 2 } }", "\"", "{"] {
            let error = applied(&arrivals(text), None, &[]).unwrap_err();
            assert!(error.starts_with("--arrivals") && error.contains("poisson"), "{error}");
        }
        let error = applied(&TrafficArgs::default(), Some("imux"), &[]).unwrap_err();
        assert!(error.starts_with("--frame-size: ") && error.contains("imix"), "{error}");
        let flows = TrafficArgs { flows: Some(0), ..TrafficArgs::default() };
        assert!(applied(&flows, None, &[]).unwrap_err().starts_with("--flows: 0"));
        assert!(
            applied(&arrivals("poisson"), None, &["loadgen.traffic.kind=ping"]).is_ok(),
            "requests also have arrival processes"
        );
        let flows = TrafficArgs { flows: Some(2), ..TrafficArgs::default() };
        let error = applied(&flows, None, &["loadgen.traffic.kind=ping"]).unwrap_err();
        assert!(error.starts_with("--flows: only test frames"), "{error}");
        let config = resolve("fast", &[]).unwrap();
        let streams = vec![StreamConfig::default()];
        let config = config.with_change(|config| config.loadgen.traffic.streams = streams).unwrap();
        let error = arrivals("poisson").apply(None, config).unwrap_err().to_string();
        assert!(error.starts_with("--arrivals: the traffic has streams"), "{error}");
    }
}
