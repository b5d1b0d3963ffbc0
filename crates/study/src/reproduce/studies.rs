//! Registry of the built-in studies, compiled into the program so that it works from any folder. A folder of
//! the user's own works as well.

use std::path::Path;

use super::figure::{Figure, FigureError};

/// The files of a study.
#[derive(Clone, Copy, Debug)]
pub struct StudyFiles {
    /// Name on the command line.
    pub name: &'static str,
    /// Title of the paper.
    pub title: &'static str,
    /// Names and texts of its figures, in display order.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! study {
    ($name:literal, $title:literal: $($figure:literal),+) => {
        StudyFiles {
            name: $name,
            title: $title,
            files: &[$(($figure, include_str!(concat!("../../../../experiments/", $name, "/", $figure, ".toml")))),+],
        }
    };
}

/// All built-in studies.
pub const STUDIES: &[StudyFiles] = &[
    study!(
        "ispass24", "Userspace Networking in gem5 (ISPASS 2024)":
        "fig05", "fig06", "fig07", "fig08", "fig09", "fig10", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17",
        "fig18", "fig19", "fig20", "sweep-branch", "sweep-cores"
    ),
    study!(
        "ddio", "Reexamining Direct Cache Access (ATC 2020)":
        "cores", "descriptors", "ways", "work"
    ),
    study!("fdio", "Benchmarking and Analysis of Software Data Planes (FD.io 2017)": "events", "l3fwd", "ovs", "pcie", "testpmd", "top-down"),
    study!("ddiosim", "DDIOSim: DDIO and full-system traces": "bounds", "ddio", "llc"),
    study!("m5-nics", "Analyzing NIC Overheads in Network-Intensive Workloads (2005)": "nat", "nfs", "receive", "send", "web"),
];

/// Returns the title and the figures of a built-in study, or of a folder with one TOML file per figure.
pub fn figures(study: &str) -> Result<(String, Vec<Figure>), FigureError> {
    if let Some(built_in) = STUDIES.iter().find(|known| known.name == study) {
        let figures = built_in.files.iter().map(|(name, text)| Figure::read(name, text));
        return Ok((built_in.title.to_owned(), figures.collect::<Result<_, _>>()?));
    }
    let fail = |problem: String| FigureError { figure: study.to_owned(), problem };
    let folder = Path::new(study);
    if !folder.is_dir() {
        let known: Vec<&str> = STUDIES.iter().map(|known| known.name).collect();
        let problem = format!(
            "no such study (built in: {}), and no folder of figure files has this name",
            known.join(", ")
        );
        return Err(fail(problem));
    }
    let entries = std::fs::read_dir(folder).map_err(|error| fail(format!("cannot read it: {error}")))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(fail("there is no .toml file in it".into()));
    }
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text =
            doorbell_files::read_text(path).map_err(|error| fail(format!("{}: {error}", path.display())))?;
        Figure::read_in(Some(folder), &name, &text)
    };
    let title = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((title, paths.iter().map(read).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_every_study_can_be_read_and_every_file_is_registered() {
        for study in STUDIES {
            let (_, all) = figures(study.name).unwrap();
            assert_eq!(all.len(), study.files.len());
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(study.name);
            let (_, found) = figures(folder.to_str().unwrap()).unwrap();
            let names = |figures: &[Figure]| figures.iter().map(|f| f.name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&found), names(&all));
        }
    }
}
