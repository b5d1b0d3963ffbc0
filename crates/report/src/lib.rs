//! Reports of a run: a text table for the terminal and one self-contained HTML page.
//!
//! Everything here is made from a [`RunSummary`] as stored in a result folder's `summary.json` (crate
//! `results`), and related files ([`PageLinks`]). A report can therefore be regenerated from an old folder,
//! and this crate depends on no other. The output is a function of the input alone: no clock, no locale, no
//! random identifiers.
//!
//! | File | Question it answers |
//! |---|---|
//! | `summary` | in which order are points shown? |
//! | `causes` | why can a frame be lost? |
//! | `scale` | where are an axis's ticks? (`number`, the format of numbers, is `doorbell_results::format`) |
//! | `text` | what does the terminal show? |
//! | `svg`, `figures` | what does each plot show? A new plot is one file there and one line in its list |
//! | `stages`, `functions`, `kinds` | where did packets and cores spend their time? |
//! | `steady` | how did loads reach their rate, and which were measured too early? |
//! | `ports` | what did each NIC and its generator count? |
//! | `html`, `page`, `numbers`, `headline` | how are they combined into a page? |
//! | `script/` | which interactions do plots and tables have in a browser? |
//! | `played` | what are the results of a played trace? |
//! | `generator_notes` | what part of a round trip is the generator's own, which frames are too late? |
//! | `captures` | which packets of replayed captures were omitted, changed, or not measured? |
//! | `comparison`, `comparison_html` | how do results compare? |
//! | `transfer` | how much did each core's servers transfer? |
//! | `search`, `search_overview`, `experiment` | what is the result of a search or an experiment? |

#![forbid(unsafe_code)]

mod captures;
mod causes;
mod comparison;
mod comparison_html;
mod cores;
mod escape;
mod experiment;
mod figures;
mod functions;
mod generator_notes;
mod headline;
mod html;
mod html_table;
mod kinds;
mod neighbours;
mod network;
mod numbers;
mod page;
mod played;
mod ports;
mod queues;
mod reproduction;
mod scale;
mod search;
mod search_overview;
mod software;
mod stages;
mod steady;
mod streams;
mod summary;
mod svg;
mod text;
mod timing;
mod transfer;

#[cfg(test)]
mod html_tests;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod text_tests;

pub(crate) use doorbell_results::format as number;
pub(crate) use doorbell_results::limit;

pub use comparison::comparison_text;
pub use comparison_html::comparison_html;
pub use doorbell_results::{ComparedFigure, RunSummary, SearchSummary, SummaryError};
pub use experiment::{
    ExperimentCell, ExperimentCurve, ExperimentPage, ExperimentPlot, ExperimentPoint, ExperimentRow,
    ExperimentTable,
};
#[cfg(test)]
pub(crate) use html::html;
pub use html::html_with;
pub use page::PageLinks;
pub use ports::unsupported_text;
pub use reproduction::{ClaimRow, ReproducedFigure, ReproductionPage};
pub use search::{search_html, search_html_with, search_table, spelled_out};
pub use text::{profile_text, table};
