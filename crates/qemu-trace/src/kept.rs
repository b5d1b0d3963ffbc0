//! Recordings are kept, so that other windows of the same one can be traced: by what they are of, or where the user wants.

use std::fs;
use std::path::{Path, PathBuf};

use doorbell_files::{self as files, Lock};
use doorbell_image::Image;

use crate::made_with;
use crate::recording::{Guest, RecordError, Wanted, Watch, record};
use crate::tools::Tools;

/// What a recording is of, as a number: other guests, commands or versions have other ones.
const IDENTITY_FILE: &str = "identity";
/// Part of the name while it is made.
const PART: &str = "part";

/// The folder of a recording of this, which is made unless it is there, or is wanted again.
pub fn recording(
    tools: &Tools,
    wanted: &Wanted,
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
        Lock::wait(&Lock::beside(&folder), || watch.check()).map_err(RecordError::io("lock", &folder))?;
    let _lock = lock?;
    if folder.exists() && !again {
        let there = fs::read_to_string(folder.join(IDENTITY_FILE)).unwrap_or_default();
        // The machine is none of what the identity is made of.
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
            (watch.say)(&format!("taking the recording in {}", folder.display()));
            return Ok(folder);
        }
        if keep.is_some() {
            let problem = format!(
                "{} holds something else than a recording of this guest, command and version of QEMU; name another folder, or take \
                 --again to replace a recording",
                folder.display()
            );
            return Err(RecordError::Failed(problem));
        }
    }
    if keep.is_some() && folder.exists() && !folder.join(IDENTITY_FILE).exists() {
        let problem =
            format!("{} is no recording, and is not replaced; name another folder", folder.display());
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

fn identity(tools: &Tools, wanted: &Wanted) -> Result<String, RecordError> {
    let Wanted { guest, beside, is_server, at_most: _ } = wanted;
    let image = Image::open(&guest.image)?;
    let sums = image.manifest().files.iter().map(|file| &file.sha256[..]).collect::<Vec<_>>();
    let command_line = &image.manifest().command_line;
    let all = format!("{guest:?} {beside:?} {is_server} {sums:?} {command_line} {}", tools.version());
    Ok(files::sha256(all.as_bytes()))
}
