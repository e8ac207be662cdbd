use super::*;
use crate::test_folder::TestFolder;

fn folder(parent: &TestFolder, name: &str, mode: u32) -> PathBuf {
    let folder = parent.path().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
    folder
}

/// Neither the owner nor of the group of a test's folder.
fn stranger(parent: &TestFolder) -> PostgresUser {
    let metadata = fs::metadata(parent.path()).unwrap();
    let name = "the user postgres".to_owned();
    PostgresUser { uid: metadata.uid() + 1000, gid: metadata.gid() + 1000, name }
}

#[test]
fn an_ordinary_user_keeps_the_folder_that_was_asked_for() {
    let parent = TestFolder::new("folder-ordinary");
    let asked_for = folder(&parent, "closed", 0o700).join("data");
    let chosen = choose(asked_for.clone(), None, Some(&parent.path().join("fallback"))).unwrap();
    assert_eq!((&*chosen.path, chosen.notice.as_deref()), (&*asked_for, None));
}

#[test]
fn under_a_closed_folder_the_fallback_is_used_with_a_notice() {
    let parent = TestFolder::new("folder-closed");
    let stranger = stranger(&parent);
    let closed = folder(&parent, "home", 0o700);
    let fallback = parent.path().join("fallback");
    for asked_for in [closed.join("clone/data"), closed.join("data")] {
        let chosen = choose(asked_for.clone(), Some(&stranger), Some(&fallback)).unwrap();
        assert_eq!(chosen.path, fallback);
        let notice = chosen.notice.expect("there is a notice");
        for part in [&fallback, &asked_for, &closed] {
            assert!(notice.contains(part.to_str().unwrap()), "{notice}");
        }
        assert!(notice.contains("mode 0700"), "{notice}");
    }
    let asked_for = closed.join("data");
    let refused = choose(asked_for, Some(&stranger), None).unwrap_err();
    assert!(matches!(refused, ClusterError::NotEnterable { .. }), "without a fallback: {refused}");
    let open = folder(&parent, "open", 0o711).join("data");
    let chosen = choose(open.clone(), Some(&stranger), Some(&fallback)).unwrap();
    assert_eq!((&*chosen.path, chosen.notice.as_deref()), (&*open, None));
}

#[test]
fn existing_data_is_never_replaced_by_an_empty_cluster_elsewhere() {
    let parent = TestFolder::new("folder-data");
    let stranger = stranger(&parent);
    let fallback = parent.path().join("fallback");
    let home = folder(&parent, "home", 0o700);

    let data = home.join("data");
    fs::create_dir_all(data.join(PGDATA)).unwrap();
    assert_eq!(choose(data.clone(), Some(&stranger), Some(&fallback)).unwrap().path, data);
    let refused = blocked(&data, &stranger).unwrap();
    assert_eq!(refused, Some((home.clone(), 0o700)), "the owner of the cluster is refused in words later");

    // The other way round: the home becomes enterable when the fallback folder has the data.
    let other = home.join("other");
    let chosen = choose(other.clone(), Some(&stranger), Some(&fallback)).unwrap();
    fs::create_dir_all(fallback.join(PGDATA)).unwrap();
    chosen.note_replaced().unwrap();
    chosen.note_replaced().unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o755)).unwrap();
    let chosen = choose(other.clone(), Some(&stranger), Some(&fallback)).unwrap();
    assert_eq!(chosen.path, fallback);
    assert!(chosen.notice.is_some());
    let lines = fs::read_to_string(fallback.join(REPLACED)).unwrap();
    assert_eq!(lines, format!("{}\n", other.display()), "it is noted once");
    // Folders that were always enterable are not affected.
    let third = home.join("third");
    assert_eq!(choose(third.clone(), Some(&stranger), Some(&fallback)).unwrap().path, third);
}

#[test]
fn a_data_folder_is_made_with_fitting_modes() {
    let parent = TestFolder::new("folder-modes");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let private = parent.path().join("private");
    create(&private, false).unwrap();
    create(&private, false).unwrap();
    assert_eq!(mode(&private), 0o700);

    let open = parent.path().join("a/b/data");
    create(&open, true).unwrap();
    assert_eq!((mode(&open), mode(&parent.path().join("a/b"))), (0o711, 0o755));
}

#[test]
fn a_folder_with_other_files_keeps_its_mode() {
    let parent = TestFolder::new("folder-foreign");
    let home = folder(&parent, "home", 0o700);
    fs::write(home.join("letter"), "").unwrap();
    create(&home, true).unwrap();
    assert_eq!(fs::metadata(&home).unwrap().mode() & 0o7777, 0o700);
    assert!(!is_ours(&home));
    fs::write(home.join(LOCK), "").unwrap();
    assert!(is_ours(&home));
}

#[test]
fn a_path_that_does_not_exist_yet_is_resolved_through_links() {
    let parent = TestFolder::new("folder-links");
    let real = folder(&parent, "real", 0o755);
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert_eq!(resolve(&link.join("a/b")).unwrap(), real.join("a/b"));
    assert_eq!(resolve(&link).unwrap(), real);
}

#[test]
fn a_file_in_the_way_is_an_error_that_names_it() {
    let parent = TestFolder::new("folder-file");
    let file = parent.path().join("data");
    fs::write(&file, "").unwrap();
    let error = create(&file, false).unwrap_err().to_string();
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}
