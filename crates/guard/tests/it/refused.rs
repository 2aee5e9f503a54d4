//! Is an unsound system refused, with the numbers?

use memtint_guard::{Config, Group, Guard, GuardError, Kind, LastValue, Reservation, Sharing};

fn group(cores: &[usize], budget: u32) -> Group {
    Group { cores: cores.to_vec(), reservation: Reservation { budget, kind: Kind::Hard }, quantum: 10, skid: 5 }
}

fn config(groups: Vec<Group>, guaranteed: u32) -> Config {
    Config { cores: 4, groups, guaranteed, reclaim_step: 10, sharing: Sharing::Off }
}

fn refusal(config: Config) -> String {
    Guard::new(config, |_| LastValue::default()).expect_err("an unsound system").to_string()
}

#[test]
fn equality_is_accepted_and_one_event_more_is_not() {
    // 100 + 200 + 3 (10 + 5)
    let groups = || vec![group(&[0], 100), group(&[1, 2], 200)];
    assert_eq!(config(groups(), 345).check(), Ok(()));
    assert_eq!(
        refusal(config(groups(), 344)),
        "budgets (300), quanta (30) and skids (15) of all cores add up to 345 events per period; accepted is up to the guaranteed 344"
    );
}

#[test]
fn each_fault_is_named() {
    assert_eq!(refusal(config(vec![group(&[], 1)], 99)), "group 0 has no cores; accepted is at least one");
    assert_eq!(refusal(config(vec![group(&[4], 1)], 99)), "group 0 has core 4; accepted are 0 to 3");
    assert_eq!(
        refusal(config(vec![group(&[0, 1], 1), group(&[1], 1)], 99)),
        "core 1 is in groups 0 and 1; accepted is one group per core"
    );
    assert_eq!(refusal(config(vec![group(&[0], 0)], 99)), "budget of group 0 is 0; accepted is 1 or more");
    let no_quantum = Group { quantum: 0, ..group(&[0], 1) };
    assert_eq!(refusal(config(vec![no_quantum], 99)), "quantum of group 0 is 0; accepted is 1 or more");
    for reclaim_step in [0, 11] {
        assert_eq!(
            refusal(Config { reclaim_step, ..config(vec![group(&[0], 1)], 99) }),
            format!("the reclaim step is {reclaim_step}; accepted is 1 to 10, the smallest quantum")
        );
    }
    assert_eq!(
        refusal(config(vec![group(&[0], 1)], u32::MAX)),
        "the guaranteed events per period are 4294967295; accepted are up to 2147483647"
    );
    let many = Config { cores: 40_000, ..config(vec![], 99) };
    assert_eq!(refusal(many), "the system has 40000 cores; accepted are up to 32767");
}

#[test]
fn a_change_that_breaks_the_rule_changes_nothing() {
    let mut guard = Guard::new(config(vec![group(&[0], 100)], 115), |_| LastValue::default()).expect("a sound system");
    let before = guard.clone();
    let reservation = Reservation { budget: 101, kind: Kind::Soft };
    assert!(matches!(guard.set_reservation(0, reservation), Err(GuardError::OverReserved { sum: 116, .. })));
    let unknown = guard.set_reservation(1, reservation).expect_err("one group");
    assert_eq!(unknown.to_string(), "there is no group 1; accepted are indices below 1");
    assert!(guard == before);
}
