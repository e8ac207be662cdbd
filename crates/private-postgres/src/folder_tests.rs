use super::*;

fn user(uid: u32, gid: u32) -> User {
    User { uid, gid, name: "the user postgres".to_owned() }
}

/// A folder that ends with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("minitill-folder-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        Self(fs::canonicalize(folder).unwrap())
    }

    fn folder(&self, name: &str, mode: u32) -> PathBuf {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }

    /// Neither the owner nor of the group of what is made here.
    fn stranger(&self) -> User {
        let metadata = fs::metadata(&self.0).unwrap();
        user(metadata.uid() + 1000, metadata.gid() + 1000)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn one_class_of_permission_bits_decides_as_in_the_kernel() {
    let someone = user(101, 104);
    for (uid, gid, mode, may) in [
        (101, 104, 0o700, true),
        (101, 104, 0o077, false), // the owner's bits count for the owner, even where others have more
        (0, 104, 0o010, true),
        (0, 104, 0o701, false),
        (0, 0, 0o711, true),
        (0, 0, 0o750, false),
        (0, 0, 0o644, false),
    ] {
        assert_eq!(may_enter(&someone, uid, gid, mode), may, "{uid} {gid} {mode:o}");
    }
}

#[test]
fn users_are_found_by_their_whole_name_and_never_root() {
    let passwd = "root:x:0:0::/root:/bin/sh\npostgresql:x:7:7::/:\npostgres:x:101:104:a,,:/var:/bin/bash\nfake:x:0:5::/:\nbad:x\n";
    assert_eq!(user_in(passwd, "postgres"), Some(user(101, 104)));
    assert_eq!(user_in(passwd, "fake"), None);
    assert_eq!(user_in(passwd, "bad"), None);
    assert_eq!(user_in(passwd, "nobody"), None);
}

#[test]
fn contract_9_an_ordinary_user_keeps_the_folder_that_was_asked_for() {
    let scratch = Scratch::new("ordinary");
    let asked_for = scratch.folder("closed", 0o700).join("minitill-data");
    let chosen = choose(asked_for.clone(), None, &scratch.0.join("stand-in")).unwrap();
    assert_eq!((chosen.path(), chosen.notice()), (&*asked_for, None));
}

#[test]
fn contract_9_under_a_closed_folder_the_stand_in_is_used_and_said() {
    let scratch = Scratch::new("closed");
    let stranger = scratch.stranger();
    let closed = scratch.folder("home", 0o700);
    let stand_in = scratch.0.join("stand-in");
    for asked_for in [closed.join("clone/minitill-data"), closed.join("minitill-data")] {
        let chosen = choose(asked_for.clone(), Some(&stranger), &stand_in).unwrap();
        assert_eq!(chosen.path(), stand_in);
        let notice = chosen.notice().expect("it is said");
        for part in [&stand_in, &asked_for, &closed] {
            assert!(notice.contains(part.to_str().unwrap()), "{notice}");
        }
        assert!(notice.contains("mode 0700"), "{notice}");
    }
    let open = scratch.folder("open", 0o711).join("minitill-data");
    let chosen = choose(open.clone(), Some(&stranger), &stand_in).unwrap();
    assert_eq!((chosen.path(), chosen.notice()), (&*open, None));
}

#[test]
fn data_that_is_there_is_never_left_alone_for_an_empty_cluster_elsewhere() {
    let scratch = Scratch::new("data");
    let stranger = scratch.stranger();
    let stand_in = scratch.0.join("stand-in");
    let home = scratch.folder("home", 0o700);

    let data = home.join("minitill-data");
    fs::create_dir_all(data.join(PGDATA)).unwrap();
    assert_eq!(choose(data.clone(), Some(&stranger), &stand_in).unwrap().path(), data);
    let refused = blocked(&data, &stranger).unwrap();
    assert_eq!(refused, Some((home.clone(), 0o700)), "the owner of the cluster is refused in words later");

    // The other way round: the home is opened after the stand-in folder took the data.
    let other = home.join("other");
    let chosen = choose(other.clone(), Some(&stranger), &stand_in).unwrap();
    fs::create_dir_all(stand_in.join(PGDATA)).unwrap();
    chosen.remember_stand_in().unwrap();
    chosen.remember_stand_in().unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o755)).unwrap();
    let chosen = choose(other.clone(), Some(&stranger), &stand_in).unwrap();
    assert_eq!(chosen.path(), stand_in);
    assert!(chosen.notice().is_some());
    let lines = fs::read_to_string(stand_in.join(STANDS_IN_FOR)).unwrap();
    assert_eq!(lines, format!("{}\n", other.display()), "it is remembered once");
    // ... which does not concern folders that never needed it.
    let third = home.join("third");
    assert_eq!(choose(third.clone(), Some(&stranger), &stand_in).unwrap().path(), third);
}

#[test]
fn a_data_folder_is_made_with_fitting_modes() {
    let scratch = Scratch::new("modes");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let private = scratch.0.join("private");
    create(&private, false).unwrap();
    create(&private, false).unwrap();
    assert_eq!(mode(&private), 0o700);

    let open = scratch.0.join("a/b/data");
    create(&open, true).unwrap();
    assert_eq!((mode(&open), mode(&scratch.0.join("a/b"))), (0o711, 0o755));
}

#[test]
fn a_folder_of_somebody_elses_keeps_its_mode() {
    let scratch = Scratch::new("foreign");
    let home = scratch.folder("home", 0o700);
    fs::write(home.join("letter"), "").unwrap();
    create(&home, true).unwrap();
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o7777, 0o700);
    assert!(!is_ours(&home));
    fs::write(home.join(LOCK), "").unwrap();
    assert!(is_ours(&home));
}

#[test]
fn a_path_that_does_not_exist_yet_is_resolved_through_links() {
    let scratch = Scratch::new("links");
    let real = scratch.folder("real", 0o755);
    let link = scratch.0.join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(resolve(&link.join("a/b")).unwrap(), real.join("a/b"));
    assert_eq!(resolve(&link).unwrap(), real);
}

#[test]
fn a_file_in_the_way_is_an_error_that_names_it() {
    let scratch = Scratch::new("file");
    let file = scratch.0.join("data");
    fs::write(&file, "").unwrap();
    let error = create(&file, false).unwrap_err().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}
