use crate::outside::calls::sql::database::*;

#[test]
fn a_server_that_is_away_is_told_from_one_that_refuses() {
    for (code, passing) in [
        ("08006", true),
        ("57P03", true),
        ("53300", true),
        ("28P01", false),
        ("42703", false),
        ("25006", false),
        ("5", true),
        ("1", false),
        ("", false),
    ] {
        assert_eq!(is_passing(code), passing, "{code}");
    }
    let away = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
    assert!(matches!(trouble(&sqlx::Error::Io(away)), Trouble::Connection(_)));
    assert!(matches!(trouble(&sqlx::Error::RowNotFound), Trouble::Refused(_)));
}
