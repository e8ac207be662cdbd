use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use super::*;
use crate::test_folder::TestFolder;

/// A data folder, under root of another user, and beside it a file and a folder that must not
/// change.
struct LinkTraps {
    parent: TestFolder,
    data: PathBuf,
    letter: PathBuf,
    home: PathBuf,
}

impl LinkTraps {
    fn new(name: &str) -> Self {
        let parent = TestFolder::new(&format!("files-{name}"));
        let [data, letter, home] = ["data", "letter", "home"].map(|name| parent.path().join(name));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&home).unwrap();
        fs::write(&letter, "dear").unwrap();
        fs::set_permissions(&letter, Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(&home, Permissions::from_mode(0o750)).unwrap();
        if is_root() {
            chown(&data, Some(4711), Some(4712)).unwrap();
        }
        Self { parent, data, letter, home }
    }

    fn assert_refused<T: std::fmt::Debug>(&self, result: Result<T, ClusterError>, name: &str, reason: &str) {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(self.data.join(name).to_str().unwrap()), "{error}");
        assert!(error.contains(reason), "{error}");
        let owner_and_mode = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
        };
        let (uid, gid, _) = owner_and_mode(self.parent.path());
        assert_eq!(owner_and_mode(&self.letter), (uid, gid, 0o640));
        assert_eq!(owner_and_mode(&self.home), (uid, gid, 0o750));
        assert_eq!(fs::read_to_string(&self.letter).unwrap(), "dear");
    }
}

#[test]
fn a_link_in_place_of_a_file_is_refused_and_its_target_stays_as_it_is() {
    let traps = LinkTraps::new("link");
    for target in [&traps.letter, &traps.home, &traps.parent.path().join("nothing")] {
        symlink(target, traps.data.join("file")).unwrap();
        let reason = "it is a symbolic link";
        traps.assert_refused(append_file(&traps.data, "file"), "file", reason);
        traps.assert_refused(write_file(&traps.data, "file", b"x"), "file", reason);
        assert!(!traps.parent.path().join("nothing").exists());
        fs::remove_file(traps.data.join("file")).unwrap();
    }
}

#[test]
fn a_hard_link_and_a_pipe_are_refused() {
    let traps = LinkTraps::new("other");
    fs::hard_link(&traps.letter, traps.data.join("name")).unwrap();
    traps.assert_refused(write_file(&traps.data, "name", b"x"), "name", "hard link");
    let pipe = traps.data.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    traps.assert_refused(append_file(&traps.data, "pipe"), "pipe", "open");
    let _reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    traps.assert_refused(append_file(&traps.data, "pipe"), "pipe", "no regular file");
}

#[test]
fn a_link_in_place_of_a_folder_is_refused() {
    let traps = LinkTraps::new("folder");
    for target in [&traps.letter, &traps.home, &traps.parent.path().join("nothing")] {
        symlink(target, traps.data.join("run")).unwrap();
        traps.assert_refused(open_folder(&traps.data.join("run")), "run", "it is a symbolic link");
        fs::remove_file(traps.data.join("run")).unwrap();
    }
}

#[test]
fn a_new_file_is_private_to_the_owner_of_the_folder_and_can_be_replaced() {
    let traps = LinkTraps::new("made");
    let path = traps.data.join("file");
    for text in ["long", "new"] {
        write_file(&traps.data, "file", text.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    append_file(&traps.data, "file").unwrap().write_all(b"er").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    let (file, folder) = (fs::metadata(&path).unwrap(), fs::metadata(&traps.data).unwrap());
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (folder.uid(), folder.gid(), 0o600));
}

#[test]
fn a_file_that_was_moved_into_the_folder_keeps_its_owner() {
    let traps = LinkTraps::new("moved");
    fs::rename(&traps.letter, traps.data.join("file")).unwrap();
    append_file(&traps.data, "file").unwrap();
    let uid = |path: &Path| fs::metadata(path).unwrap().uid();
    assert_eq!(uid(&traps.data.join("file")), uid(traps.parent.path()));
}
