//! What a person reads of a run: a text table for the terminal and one self-contained HTML page.
//!
//! Everything here is made from a [`RunSummary`] as a result folder's `summary.json` holds it (crate `results`), and what lies
//! beside it ([`Beside`]), so that a report can be made again from an old folder and this room needs to know no other. The output is a
//! function of the input alone: no clock, no locale, no random identifiers.
//!
//! | File | Question it answers |
//! |---|---|
//! | `summary` | in which order are points looked at? |
//! | `causes` | what can become of a frame that did not come back? |
//! | `scale` | where do axes have their ticks? (`number`, how figures are written, is the crate `results`' `format`) |
//! | `text` | what does the terminal show? |
//! | `svg`, `figures` | what does each plot show? A new plot is one file there and one line in its list |
//! | `stages`, `functions`, `kinds` | where did packets and cores spend their time? |
//! | `steady` | how did loads come to their pace, and which were measured too early? |
//! | `ports` | what did each NIC and its generator count? |
//! | `html`, `page`, `numbers`, `headline` | how do they become a page? |
//! | `script/` | what can be done with plots and tables in a browser? |
//! | `played` | what did a played trace come to? |
//! | `notes` | what of a round trip is the generator's own, which frames came back too late? |
//! | `captures` | what was left out of replayed captures, changed, and not measured? |
//! | `comparison`, `comparison_html` | what do results say side by side? |
//! | `transfer` | what did each core's servers move? |
//! | `search`, `search_overview`, `experiment` | what did a search find, what do all points of an experiment say? |

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
mod headline;
mod html;
mod kinds;
mod neighbours;
mod network;
mod notes;
mod numbers;
mod page;
mod played;
mod ports;
mod queues;
mod ran;
mod reproduction;
mod scale;
mod search;
mod search_overview;
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
pub use html::{html, html_with};
pub use page::Beside;
pub use ports::asked_text;
pub use reproduction::{ClaimRow, ReproducedFigure, ReproductionPage};
pub use search::{search_html, search_html_with, search_table, spelled_out};
pub use text::{profile_text, summary_text, table};
