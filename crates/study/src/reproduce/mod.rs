//! Studies that reproduce a paper: a file a figure, with the experiments that measure it and the paper's claims beside them.
//! A claim is confirmed, differs or cannot be tested; which of them is computed, and why it differs is written in the file.

mod claim;
mod figure;
mod studies;

pub use claim::{Claim, Judged, Measured, Verdict};
pub use figure::{Figure, FigureError, PartFile};
pub use studies::{STUDIES, StudyFiles, figures};
