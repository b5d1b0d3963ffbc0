//! The terminal's output as a whole, on made-up runs.

use crate::sample;
use crate::text::{WIDTH, summary_text, table};

#[test]
fn the_table_of_six_loads() {
    insta::assert_snapshot!(table(&sample::loads()), @"");
}

#[test]
fn a_run_of_which_nothing_came_back() {
    insta::assert_snapshot!(table(&sample::silent()), @"");
}

#[test]
fn a_point_in_a_few_lines() {
    insta::assert_snapshot!(summary_text(&sample::loads().points[5]), @"");
}

#[test]
fn a_silent_point_in_a_few_lines() {
    insta::assert_snapshot!(summary_text(&sample::silent().points[0]), @"");
}

#[test]
fn the_widest_table_fits_a_hundred_columns() {
    let mut summary = sample::loads();
    summary.points.iter_mut().for_each(sample::everything_lost);
    let text = table(&summary);
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
    }
    assert!(text.contains("Rest: guest, tx, dma."), "{text}");
    insta::assert_snapshot!(text.lines().skip(4).take(3).collect::<Vec<_>>().join("\n"), @"");
}

#[test]
fn each_frame_size_has_its_own_table() {
    let mut summary = sample::loads();
    summary.points[1].frame_size = 1518;
    let text = table(&summary);
    assert_eq!(text.matches("Frames of").count(), 2);
    assert!(text.contains("Frames of 1,518 bytes"));
}

#[test]
fn books_that_do_not_balance_are_said_aloud() {
    let mut summary = sample::loads();
    summary.points[3].drops.core += 5;
    summary.points[4].drops.core -= 5;
    let text = table(&summary);
    assert!(text.contains("At 9.000 Mpps the causes count 5 frames more than were lost."), "{text}");
    assert!(text.contains("At 10.000 Mpps the causes leave 5 lost frames unexplained."), "{text}");
}

#[test]
fn a_run_without_a_point_says_so() {
    let mut summary = sample::loads();
    summary.points.clear();
    assert!(table(&summary).ends_with("No load was measured.\n"));
}

#[test]
fn a_name_cannot_break_the_terminal() {
    let mut summary = sample::loads();
    summary.benchmark = "a\u{1b}[31m\nb".to_owned();
    assert!(table(&summary).starts_with("a [31m b · preset"));
}
