use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use super::*;

/// A folder that ends with the test: in it a data folder, as root of another user's, and a file and a folder of ours
/// that are nobody else's business.
struct Scratch {
    parent: PathBuf,
    data: PathBuf,
    letter: PathBuf,
    home: PathBuf,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let parent = std::env::temp_dir().join(format!("minitill-files-{name}-{}", std::process::id()));
        let (data, letter, home) = (parent.join("data"), parent.join("letter"), parent.join("home"));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir(&home).unwrap();
        fs::write(&letter, "dear").unwrap();
        fs::set_permissions(&letter, Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o750)).unwrap();
        if is_root() {
            chown(&data, Some(4711), Some(4712)).unwrap();
        }
        Self { parent, data, letter, home }
    }

    fn assert_refused<T: std::fmt::Debug>(&self, result: Result<T, Error>, name: &str, reason: &str) {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(self.data.join(name).to_str().unwrap()), "{error}");
        assert!(error.contains(reason), "{error}");
        let owner_and_mode = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
        };
        let (uid, gid, _) = owner_and_mode(&self.parent);
        assert_eq!(owner_and_mode(&self.letter), (uid, gid, 0o640));
        assert_eq!(owner_and_mode(&self.home), (uid, gid, 0o750));
        assert_eq!(fs::read_to_string(&self.letter).unwrap(), "dear");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.parent);
    }
}

#[test]
fn a_link_in_place_of_a_file_is_refused_and_what_it_leads_to_left_alone() {
    let scratch = Scratch::new("link");
    for target in [&scratch.letter, &scratch.home, &scratch.parent.join("nothing")] {
        symlink(target, scratch.data.join("file")).unwrap();
        let reason = "it is a symbolic link";
        scratch.assert_refused(open_file(&scratch.data, "file"), "file", reason);
        scratch.assert_refused(write_file(&scratch.data, "file", b"x"), "file", reason);
        assert!(!scratch.parent.join("nothing").exists());
        fs::remove_file(scratch.data.join("file")).unwrap();
    }
}

#[test]
fn another_name_of_a_file_and_what_is_no_file_are_refused() {
    let scratch = Scratch::new("other");
    fs::hard_link(&scratch.letter, scratch.data.join("name")).unwrap();
    scratch.assert_refused(write_file(&scratch.data, "name", b"x"), "name", "hard link");
    let pipe = scratch.data.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    scratch.assert_refused(open_file(&scratch.data, "pipe"), "pipe", "open");
    let _reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    scratch.assert_refused(open_file(&scratch.data, "pipe"), "pipe", "no regular file");
}

#[test]
fn a_link_in_place_of_a_folder_is_refused() {
    let scratch = Scratch::new("folder");
    for target in [&scratch.letter, &scratch.home, &scratch.parent.join("nothing")] {
        symlink(target, scratch.data.join("run")).unwrap();
        scratch.assert_refused(open_folder(&scratch.data.join("run")), "run", "it is a symbolic link");
        fs::remove_file(scratch.data.join("run")).unwrap();
    }
}

#[test]
fn a_file_is_made_private_for_the_owner_of_the_folder_and_written_anew() {
    let scratch = Scratch::new("made");
    let path = scratch.data.join("file");
    for text in ["long", "new"] {
        write_file(&scratch.data, "file", text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    open_file(&scratch.data, "file").unwrap().write_all(b"er").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    let (file, folder) = (fs::metadata(&path).unwrap(), fs::metadata(&scratch.data).unwrap());
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (folder.uid(), folder.gid(), 0o600));
}

#[test]
fn a_file_that_was_moved_into_the_folder_is_not_given_away() {
    let scratch = Scratch::new("moved");
    fs::rename(&scratch.letter, scratch.data.join("file")).unwrap();
    open_file(&scratch.data, "file").unwrap();
    let uid = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(uid(&scratch.data.join("file")), uid(&scratch.parent));
}
