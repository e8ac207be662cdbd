use super::*;

/// Rule (contract 2.8): nothing that an S3 store echoes, a signature or a key, comes into a log.
#[test]
fn a_complaint_holds_the_store_s_code_and_nothing_else_of_its_body() {
    let body =
        "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><StringToSign>AWS4 x</StringToSign>";
    let source = format!("Server returned non-2xx status code: 403 Forbidden: {body}").into();
    let error = object_store::Error::Generic { store: "S3", source };
    let ObjectStoreError::Unavailable(text) = error_of(&error) else { panic!("{error}") };
    assert!(text.contains("403 Forbidden") && text.contains("(SignatureDoesNotMatch)"), "{text}");
    assert!(!text.contains("AWS4"), "{text}");
}

#[test]
fn a_name_is_found_again_by_its_path_and_nothing_else_is_one() {
    let name = ObjectName::random();
    assert_eq!(ObjectName::of_path(&name.path()), Some(name.clone()));
    for path in [name.as_str(), &format!("zz/{}", name.as_str()), &format!("{}#1", name.path()), "", "ab/"] {
        assert_eq!(ObjectName::of_path(path), None, "{path}");
    }
    assert_eq!(ObjectName::parse(&name.as_str().to_uppercase().replace(char::is_numeric, "A")), None);
}

/// Rule: the private folder of an operator's pictures is for nobody else's eyes.
#[tokio::test]
async fn a_folder_that_is_made_is_ours_alone_and_a_write_is_whole() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = std::env::temp_dir().join(format!("minitill-objects-{}", std::process::id()));
    let settings =
        ObjectStoreSettings { folder: Some(folder.clone()), s3: None, timeout: Duration::from_secs(30) };
    let objects = Objects::new(&settings).unwrap();
    assert_eq!(objects.owner(Outside::Folder).await, Ok(None));
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let (name, bytes) = (ObjectName::random(), Bytes::from_static(b"some bytes"));
    let sha256 = Sha256::digest(&bytes).into();
    objects.write(Outside::Folder, &name, bytes.clone()).await.unwrap();
    objects.verify(Outside::Folder, &name, 10, &sha256).await.unwrap();
    assert!(matches!(
        objects.verify(Outside::Folder, &name, 9, &sha256).await,
        Err(ObjectStoreError::Wrong(_))
    ));
    assert!(matches!(
        objects.verify(Outside::Folder, &name, 10, &[0; 32]).await,
        Err(ObjectStoreError::Wrong(_))
    ));
    assert_eq!(objects.piece(Outside::Folder, &name, 5..8, 10).await.unwrap(), "byt");
    assert!(matches!(
        objects.piece(Outside::Folder, &name, 5..12, 10).await,
        Err(ObjectStoreError::Wrong(_))
    ));
    objects.remove(Outside::Folder, &name).await.unwrap();
    objects.remove(Outside::Folder, &name).await.unwrap();
    assert_eq!(objects.piece(Outside::Folder, &name, 5..8, 10).await, Err(ObjectStoreError::Missing));
    assert!(matches!(objects.owner(Outside::S3).await, Err(ObjectStoreError::Unavailable(_))));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Rule: `s3.path_style = false` puts the bucket before the host.
#[test]
fn the_bucket_stands_in_the_path_or_before_the_host() {
    let settings = |path_style| S3Settings {
        bucket: "pictures".to_owned(),
        endpoint: None,
        region: "r".to_owned(),
        prefix: String::new(),
        access_key_id: "k".to_owned(),
        secret_access_key: domain::secret::Secret::default(),
        path_style,
    };
    let endpoint = url::Url::parse("https://s3.example.com:9000/").unwrap();
    let told = |path_style| s3::endpoint_of(&endpoint, &settings(path_style)).unwrap();
    assert_eq!(told(true), "https://s3.example.com:9000");
    assert_eq!(told(false), "https://pictures.s3.example.com:9000");
}
