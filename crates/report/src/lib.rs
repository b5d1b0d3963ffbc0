//! What a person reads of a run: a text table for the terminal and one self-contained HTML page.
//!
//! Everything here is made from the JSON of a result folder's `summary.json`, read by [`RunSummary::from_json`], so
//! that a report can be made again from an old folder and this room needs to know no other. The output is a
//! function of the input alone: no clock, no locale, no random identifiers.
//!
//! | File | Question it answers |
//! |---|---|
//! | `summary` | what does the file say, and is it one of ours? |
//! | `causes` | what can become of a frame that did not come back? |
//! | `number`, `scale` | how are figures written, and where do axes have their ticks? |
//! | `text` | what does the terminal show? |
//! | `svg`, `figures` | what does each plot show? A new plot is one file there and one line in its list |
//! | `stages`, `functions` | where did packets and cores spend their time? |
//! | `ports` | what did each NIC and its generator count? |
//! | `html`, `page`, `numbers`, `headline` | how do they become a page? |
//! | `search`, `experiment` | what did a search find, what do all points of an experiment say? |

#![forbid(unsafe_code)]

mod causes;
mod escape;
mod experiment;
mod figures;
mod functions;
mod headline;
mod html;
mod number;
mod numbers;
mod page;
mod ports;
mod ran;
mod reproduction;
mod scale;
mod search;
mod stages;
mod streams;
mod summary;
mod svg;
mod text;
mod timing;

#[cfg(test)]
mod html_tests;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod text_tests;

pub use experiment::{ExperimentCurve, ExperimentPage, ExperimentPlot};
pub use functions::FunctionFigures;
pub use html::html;
pub use ran::{Ran, RanImage, RanPackage};
pub use reproduction::{ClaimRow, ReproducedFigure, ReproductionPage};
pub use search::{SearchSummary, SizeSearch};
pub use stages::{StageNs, StagesNs};
pub use streams::{FlowFigures, StreamFigures, Throughput};
pub use summary::{
    BatchSummary, Change, Confidence, Drops, Figure, FigureGroup, LatencyConfidence, LatencyNs, PointSummary,
    PortFigures, ReportError, RunSummary,
};
pub use text::{summary_text, table};
