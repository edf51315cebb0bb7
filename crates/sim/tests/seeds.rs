//! A fixed set of seeds, each twice: what CI runs of the simulator.

#[test]
fn both_runs_of_a_seed_agree_and_no_promise_is_broken() {
    let mut compared = 0;
    for seed in 0..10 {
        let report = ottla_sim::run(seed);
        assert!(report.findings.is_empty(), "seed {seed}: {:#?}", report.findings);
        compared += report.figures.iter().find(|figure| figure.0 == "states compared").map_or(0, |one| one.1);
    }
    assert!(compared > 0, "no replay was compared with what was live");
}
