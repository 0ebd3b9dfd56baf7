//! Records of annotations as they are written: JSON, as for knowledge bases ([`super::knowledge`]).

pub use super::knowledge::{read, text};
pub use tidemill_workflow::annotations::{AnnotationRecord, HitRecord, JobRecord, ReplySetting};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_get_defaults_and_unknown_ones_are_ignored() {
        let record: AnnotationRecord =
            read("an annotation", r#"{"question":"q","answer":"a","more":1}"#).expect("reads");
        assert_eq!((record.question.as_str(), record.key.as_str(), record.created_at), ("q", "", 0));
        let job: JobRecord = read("a job", r#"{"action":"enable"}"#).expect("reads");
        assert_eq!((job.runs.len(), job.error.as_str()), (0, ""));
        assert!(read::<HitRecord>("a hit", "1").is_err());
    }

    #[test]
    fn records_are_written_as_they_were() {
        let record =
            AnnotationRecord { question: "q\n".into(), answer: "ä".into(), ..AnnotationRecord::default() };
        assert_eq!(read::<AnnotationRecord>("an annotation", &text(&record)).expect("reads"), record);
        let hit = HitRecord { score: 0.25, r#match: "m".into(), ..HitRecord::default() };
        assert!(text(&hit).contains(r#""match":"m""#));
        assert_eq!(read::<HitRecord>("a hit", &text(&hit)).expect("reads"), hit);
    }
}
