//! Recording cache: one recording serves several windows. A recording is stored under its identity or in a
//! folder of the user's.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files::{self as files, Lock};
use doorbell_image::Image;

use crate::made_with;
use crate::recording::{Guest, RecordError, RecordingRequest, Watch, record};
use crate::tools::Tools;

/// File with the identity, a hash of guest, commands and versions.
const IDENTITY_FILE: &str = "identity";
/// Part of the temporary name during recording.
const PART: &str = "part";

/// Folder of a recording; it is made if it does not exist or `again` is set.
pub fn recording(
    tools: &Tools,
    wanted: &RecordingRequest,
    cache: &Path,
    keep: Option<&Path>,
    again: bool,
    watch: &mut Watch,
) -> Result<PathBuf, RecordError> {
    let identity = identity(tools, wanted)?;
    let folder = keep.map_or_else(|| cache.join("recordings").join(&identity[..16]), Path::to_owned);
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    files::create_folders(parent).map_err(RecordError::io("create", parent))?;
    let lock =
        Lock::wait(&Lock::path_for(&folder), || watch.check()).map_err(RecordError::io("lock", &folder))?;
    let _lock = lock?;
    if folder.exists() && !again {
        let there = fs::read_to_string(folder.join(IDENTITY_FILE)).unwrap_or_default();
        // The identity does not cover the QEMU machine, which is checked separately.
        let changed = match Guest::load(&folder) {
            Ok(guest) if there == identity => made_with::check(tools, &guest, &folder),
            _ => Ok(()),
        };
        if let Err(error) = changed {
            if keep.is_some() {
                return Err(error);
            }
            (watch.say)(&error.to_string());
        } else if there == identity {
            (watch.say)(&format!("using the recording in {}", folder.display()));
            return Ok(folder);
        }
        if keep.is_some() {
            let problem = format!(
                "{} is not a recording of this guest, command and version of QEMU; name another folder, or use \
                 --again to replace a recording",
                folder.display()
            );
            return Err(RecordError::Failed(problem));
        }
    }
    if keep.is_some() && folder.exists() && !folder.join(IDENTITY_FILE).exists() {
        let problem =
            format!("{} is not a recording, and is not replaced; name another folder", folder.display());
        return Err(RecordError::Failed(problem));
    }
    files::remove_left_behind(&folder, PART).map_err(RecordError::io("clear", parent))?;
    let part = files::temporary_name(&folder, PART);
    files::create_folder(&part).map_err(RecordError::io("create", &part))?;
    (watch.say)("recording the guest");
    let done = record(tools, wanted, &part, watch).and_then(|()| {
        let path = part.join(IDENTITY_FILE);
        files::write(&path, identity.as_bytes()).map_err(RecordError::io("write", &path))?;
        files::put_in_place(&part, &folder).map_err(RecordError::io("put in place", &folder))
    });
    if let Err(error) = done {
        let _ = files::remove(&part);
        return Err(error);
    }
    Ok(folder)
}

fn identity(tools: &Tools, wanted: &RecordingRequest) -> Result<String, RecordError> {
    let RecordingRequest { guest, beside, is_server, at_most: _ } = wanted;
    let image = Image::open(&guest.image)?;
    let sums = image.manifest().files.iter().map(|file| &file.sha256[..]).collect::<Vec<_>>();
    let command_line = &image.manifest().command_line;
    let all = format!("{guest:?} {beside:?} {is_server} {sums:?} {command_line} {}", tools.version());
    Ok(files::sha256(all.as_bytes()))
}
