//! Studies that reproduce a paper: one file per figure, with the experiments that measure it and the paper's
//! claims.
//! A claim is confirmed, differs or cannot be tested. The verdict is computed; the reason for a difference is
//! written in the file.

mod claim;
mod figure;
mod studies;

pub use claim::{Claim, ClaimVerdict, MeasuredPart, Verdict};
pub use figure::{Figure, FigureError, PartFile};
pub use studies::{STUDIES, StudyFiles, figures};
