//! A brain that is a process: the Python example, and programs that end, flood, send nonsense, fall silent or do not
//! read. Whatever they do, no offer stays open and the Golem lives on.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bardo::base::model::StopLevel;
use bardo::base::text::SafeText;
use bardo::engine::Catalog;
use bardo::fabric::{Event, EventKind, Receiver};
use bardo::golem::brain::process::confinement::Confinement;
use bardo::golem::brain::process::{CommandLine, ProcessBrain, ProcessLimits};
use bardo::safety::approval::{AskedBy, OperatorAnswer};
use bardo::tools::ALL_TOOL_DEFS;
use serde_json::{Value, json};

use bardo_testkit::golem_harness::{GolemHarness, Life, drain};
use bardo_testkit::python::python;

const LIMITS: ProcessLimits =
    ProcessLimits { tick: Duration::from_millis(300), patience: Duration::from_secs(60), calls: 50, ticks: None };

fn brain(harness: &GolemHarness, line: &str, limits: ProcessLimits) -> Box<ProcessBrain> {
    let confinement = Confinement::protecting([harness.folder.path()]);
    Box::new(ProcessBrain::new(CommandLine::parse(line).unwrap(), limits, confinement))
}

/// Brain with these lines of Python. `say` and `hear` are provided.
fn script(harness: &GolemHarness, text: &str, limits: ProcessLimits) -> Box<ProcessBrain> {
    const HEAD: &str = "import json, os, signal, subprocess, sys, time\n\
        def say(**line):\n    print(json.dumps(line), flush=True)\n\
        def hear(wanted):\n    while True:\n        line = sys.stdin.readline()\n        if not line: sys.exit(0)\n\
        \x20       line = json.loads(line)\n        if line['type'] == wanted: return line\n\
        def offer():\n    params = dict(token_in='WETH', token_out='USDC', amount='0.05', chain='ethereum')\n\
        \x20   params['prefer_uniswapx'] = False\n\
        \x20   say(type='call', id='1', tool='preview_action', params=dict(kind='swap', params=params))\n\
        \x20   return hear('result')['response']\n";
    let file = harness.programs.path().join(format!("brain-{}.py", text.len()));
    std::fs::write(&file, format!("{HEAD}{text}")).unwrap();
    brain(harness, &format!("python3 '{}'", file.display()), limits)
}

/// Waits for an event that satisfies `wanted`.
async fn until(events: &mut Receiver, what: &str, mut wanted: impl FnMut(&Event) -> bool) -> Arc<Event> {
    let begun = Instant::now();
    loop {
        if let Some(found) = drain(events).into_iter().find(|event| wanted(event)) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that the Golem lives on: it receives the operator's message and acts on it.
async fn hears(life: &Life, events: &mut Receiver) {
    life.words.send(SafeText::clean("balances", 40)).await.unwrap();
    let heard = |event: &Event| match &event.kind {
        EventKind::GolemThought(thought) => thought.text.as_str().starts_with("You said: balances"),
        _ => false,
    };
    until(events, "an answer to the operator", heard).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_example_sells_through_preview_and_commit() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    let before = harness.sent().await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/golem.py");
    let line = format!("python3 -B '{}' --once", example.display());
    let mut life = harness.life("ada", "trade-executor", brain(&harness, &line, LIMITS));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    // The allowance for Permit2, and the swap.
    assert_eq!(harness.sent().await, before + 2);
    let told = drain(&mut events);
    let of = |wanted: fn(&EventKind) -> bool| told.iter().filter(|event| wanted(&event.kind)).count();
    assert_eq!(of(|kind| matches!(kind, EventKind::PermitConsumed(_))), 1);
    let thoughts = told.iter().filter_map(|event| match &event.kind {
        EventKind::GolemThought(thought) => Some(thought.text.to_string()),
        _ => None,
    });
    assert!(thoughts.collect::<Vec<_>>().contains(&"The sale ended as success.".to_owned()));
    assert_eq!(life.agent.open_offers(), 0);
    hears(&life, &mut events).await;
    life.leave().await;
}

/// A program first receives its tools' advice, and may report its step.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_receives_the_advice_of_its_tools_and_reports_its_step() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    let text = "line = hear('hello')\n\
        swap = [kind for kind in line['kinds'] if kind['kind'] == 'swap'][0]\n\
        quote = [query for query in line['queries'] if query['query'] == 'quote'][0]\n\
        said = [swap['guidelines']['Cautious'], swap['description'], quote['description']]\n\
        said.append('memory' in swap['guidelines'])\n\
        say(type='think', text=json.dumps(said))\n\
        say(type='now', now='Looking.', next='Selling.', step=2, of=3)\n\
        say(type='now', now='Lost.', step=4, of=3)\nhear('bye')\n";
    let life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    let (mut told, mut steps) = (None, Vec::new());
    until(&mut events, "its steps", |event| {
        match &event.kind {
            EventKind::GolemThought(thought) if told.is_none() => told = Some(thought.text.to_string()),
            EventKind::GolemNow(now) => steps.push(now.step),
            _ => {}
        }
        steps.len() == 3
    })
    .await;
    let catalog = Catalog::new(ALL_TOOL_DEFS.iter().copied()).unwrap();
    let meta = |tool: &str| catalog.get(tool).unwrap().def.meta;
    let swap = meta("uniswap_execute_swap");
    // Its archetype has no memory, so there is no advice about it.
    let wanted =
        json!([swap.prompt_guidelines.cautious, swap.description, meta("uniswap_get_quote").description, false]);
    assert_eq!(serde_json::from_str::<Value>(&told.unwrap()).unwrap(), wanted);
    // Led by a program; the second of three; and one that does not exist.
    assert_eq!(steps, [None, Some((2, 3)), None]);
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_asked_for_the_configured_number_of_ticks() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    let text = "while True:\n    say(type='think', text='tick %d' % hear('tick')['tick'])\n";
    let mut life =
        harness.life("ada", "trade-executor", script(&harness, text, ProcessLimits { ticks: Some(3), ..LIMITS }));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    let told = drain(&mut events);
    let ticks: Vec<String> = told
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::GolemThought(thought) => Some(thought.text.to_string()),
            _ => None,
        })
        .filter(|text| text.starts_with("tick"))
        .collect();
    assert_eq!(ticks, ["tick 1", "tick 2", "tick 3"]);
    life.leave().await;
}

/// A program receives its account and limits, and learns which of its lines was rejected.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_receives_its_account_and_which_line_was_rejected() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    let text = "line = hear('hello')\n\
        chain = line['chains'][0]\n\
        token = [one for one in chain['tokens'] if one['symbol'] == 'USDC'][0]\n\
        told = [line['account'], chain['name'], chain['chain_id'], token['address'], token['decimals'], line['goal']]\n\
        say(type='call', id=5, tool='query_state')\n\
        first = hear('refused')\n\
        print('no json', flush=True)\n\
        second = hear('refused')\n\
        told += [first['id'], first['line'], second['id'], second['line']]\n\
        say(type='think', text=json.dumps(told))\nhear('bye')\n";
    let life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    let is_thought = |event: &Event| matches!(event.kind, EventKind::GolemThought(_));
    let thought = until(&mut events, "what it was told", is_thought).await;
    let EventKind::GolemThought(thought) = &thought.kind else { unreachable!("it is one") };
    let told: Value = serde_json::from_str(thought.text.as_str()).unwrap();
    let usdc = harness.address(bardo::sandbox::plan::SandboxToken::Usdc).to_string();
    let told_usdc = told[3].as_str().unwrap().to_owned();
    assert!(told_usdc.eq_ignore_ascii_case(&usdc), "{told_usdc} {usdc}");
    let account = harness.world.account.unwrap().to_string();
    assert!(told[0].as_str().unwrap().eq_ignore_ascii_case(&account), "{told}");
    let rest: Vec<&Value> = told
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .filter(|(at, _)| !matches!(at, 0 | 3))
        .map(|(_, one)| one)
        .collect();
    let wanted = json!(["ethereum", 31_337, 6, bardo_testkit::golem_harness::GOAL, 5, 1, null, 2]);
    assert_eq!(rest, wanted.as_array().unwrap().iter().collect::<Vec<_>>());
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_program_leaves_no_offer_open_and_the_golem_still_receives_messages() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    let mut events = harness.events();
    // It starts a helper that keeps its pipes open, and kills itself between preview and commit.
    let text = "child = subprocess.Popen(['sleep', '600'])\nhear('tick')\nassert offer()['status'] == 'simulated'\n\
        say(type='think', text='helper %d' % child.pid)\nhear('words')\nos.kill(os.getpid(), signal.SIGKILL)\n";
    let mut life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    let helper = until(&mut events, "its helper", |event| match &event.kind {
        EventKind::GolemThought(thought) => thought.text.as_str().starts_with("helper "),
        _ => false,
    });
    let EventKind::GolemThought(helper) = helper.await.kind.clone() else { unreachable!() };
    let helper: u32 = helper.text.as_str().trim_start_matches("helper ").parse().unwrap();
    assert_eq!(life.agent.open_offers(), 1);
    life.words.send(SafeText::clean("go on", 40)).await.unwrap();
    let why = life.brains_end().await;
    assert!(why[0].contains("killed by signal 9"), "{why:?}");
    assert_eq!((life.agent.open_offers(), harness.sent().await), (0, before));
    hears(&life, &mut events).await;
    // Its child processes ended with it.
    let begun = Instant::now();
    while alive(helper) {
        assert!(begun.elapsed() < Duration::from_secs(60), "its helper goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    life.leave().await;
}

/// True if a process runs and is not a zombie.
fn alive(id: u32) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", &id.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_requests_are_withdrawn_when_the_program_ends() {
    if !python() {
        return;
    }
    let harness = GolemHarness::asking("preset = \"demo\"\nrequire_human_approval_above_usd = \"100\"\n").await;
    let before = harness.sent().await;
    let text = "hear('tick')\noffered = offer()['data']\nparams = dict(permit_id=offered['permit_id'], \
        simulation_hash=offered['simulation_hash'])\nsay(type='call', id='2', tool='commit_action', params=params)\n\
        time.sleep(600)\n";
    let mut events = harness.events();
    let life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    until(&mut events, "the question", |event| matches!(event.kind, EventKind::ApprovalRequested(_))).await;
    assert_eq!(harness.acting.pipeline.approval_queue().pending().len(), 1);
    // Leaving ends the brain, which does not answer to `bye`.
    life.leave().await;
    assert_eq!(harness.acting.pipeline.approval_queue().pending().len(), 0);
    assert_eq!(harness.sent().await, before);
}

/// Requests of the operator survive the brain: only the brain's own offers end with it.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_operator_outlive_the_brain() {
    if !python() {
        return;
    }
    let harness = GolemHarness::asking("preset = \"demo\"\nrequire_human_approval_above_usd = \"100\"\n").await;
    let before = harness.sent().await;
    let text = "hear('tick')\nassert offer()['status'] == 'simulated'\nsay(type='think', text='offered')\n\
        hear('words')\nos.kill(os.getpid(), signal.SIGKILL)\n";
    let mut events = harness.events();
    // It stays silent while the operator acts, however long that takes here.
    let patient = ProcessLimits { patience: Duration::from_secs(600), ..LIMITS };
    let mut life = harness.life("ada", "trade-executor", script(&harness, text, patient));
    let thinks = |wanted: &'static str| {
        move |event: &Event| match &event.kind {
            EventKind::GolemThought(thought) => thought.text.as_str().starts_with(wanted),
            _ => false,
        }
    };
    until(&mut events, "its offer", thinks("offered")).await;
    let say = async |words: &str| life.words.send(SafeText::clean(words, 200)).await.unwrap();
    let swap = "swap token_in=WETH token_out=USDC amount=0.05 chain=ethereum prefer_uniswapx=false";
    // One that is only offered, and one that waits for approval.
    say(&format!("preview_action {swap}")).await;
    until(&mut events, "the operator's offer", thinks("You said: preview_action")).await;
    assert_eq!(life.agent.open_offers(), 2);
    say(&format!("act {swap}")).await;
    until(&mut events, "the question", |event| matches!(event.kind, EventKind::ApprovalRequested(_))).await;
    say("go on").await;
    let why = life.brains_end().await;
    assert!(why[0].contains("killed by signal 9"), "{why:?}");
    assert_eq!((life.agent.open_offers(), harness.sent().await), (1, before), "only the brain's offer is withdrawn");
    hears(&life, &mut events).await;
    let queue = harness.acting.pipeline.approval_queue();
    let asked: Vec<_> = queue.pending().iter().map(|asked| asked.preview.permit.permit_id).collect();
    assert_eq!(asked.len(), 1, "it is still asked");
    assert_eq!(queue.pending()[0].asked_by, AskedBy::Operator, "whoever typed it asks, and not the agent");
    queue.answer(asked[0], OperatorAnswer::Once).unwrap();
    until(&mut events, "what came of it", thinks("You said: act swap")).await;
    assert!(harness.sent().await > before);
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_programs_are_ended_with_a_reason() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    let quick = ProcessLimits { patience: Duration::from_secs(1), ..LIMITS };
    let cases: &[(&str, ProcessLimits, &str)] = &[
        ("sys.stderr.write('no key given\\n')\nsys.exit(3)\n", LIMITS, "exit code 3; its stderr: no key given"),
        (
            "hear('tick')\nsys.stdout.write('{\"type\":\"id')\nsys.stdout.flush()\nsys.exit(0)\n",
            LIMITS,
            "exit code 0, in the middle of a line",
        ),
        ("while True: say(type='idle')\n", LIMITS, "more than 200 lines in a second"),
        ("while True: sys.stdout.write('x' * 65536)\n", LIMITS, "a line longer than 128 KiB"),
        // Invalid UTF-8, and truncated objects, one after another.
        (
            "for n in range(40):\n    sys.stdout.buffer.write(b'\\xff\\xfe{\\n' if n % 2 == 0 else b'{\"type\":\"idle\"\\n')\n    \
             sys.stdout.flush()\n    time.sleep(0.01)\ntime.sleep(60)\n",
            LIMITS,
            "invalid lines: not UTF-8",
        ),
        (
            "for n in range(40):\n    print('garbage', n, flush=True)\n    time.sleep(0.01)\ntime.sleep(60)\n",
            LIMITS,
            "keeps writing invalid lines",
        ),
        ("hear('tick')\ntime.sleep(600)\n", quick, "it has not answered for 1 s"),
        // Nonsense is not an answer to a tick.
        (
            "hear('tick')\nfor n in range(40):\n    print('{}', flush=True)\n    time.sleep(1)\ntime.sleep(600)\n",
            quick,
            "it has not answered for 1 s",
        ),
        // Answers are large and it reads none: its pipe fills up, until the timeout. It sends so little per second that
        // late lines stay within the limits, too.
        (
            "n = 0\nwhile True:\n    n += 1\n    say(type='call', id=str(n), tool='x' * 60, params={})\n    time.sleep(0.02)\n",
            ProcessLimits { calls: 1_000_000, ..LIMITS },
            "does not read its stdin",
        ),
        ("os.close(1)\ntime.sleep(600)\n", LIMITS, "it closed its stdout"),
    ];
    for (text, limits, wanted) in cases {
        let begun = Instant::now();
        let mut life = harness.life("ada", "trade-executor", script(&harness, text, *limits));
        let why = life.brains_end().await;
        eprintln!("{:>6} ms  {why:?}", begun.elapsed().as_millis());
        assert!(why[0].contains(wanted), "{wanted}: {why:?}");
        assert_eq!(life.agent.open_offers(), 0, "{wanted}");
        life.leave().await;
    }
    let mut life = harness.life("ada", "trade-executor", brain(&harness, "/no/such/program", LIMITS));
    let why = life.brains_end().await;
    assert!(why[0].contains("cannot start"), "{why:?}");
    life.leave().await;
    assert_eq!(harness.sent().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_no_secrets_and_its_calls_are_limited() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    // Environment variables of this process that a brain needs; shells, which start some interpreters, set a few of
    // their own.
    const USEFUL: &str = "PATH HOME LANG LC_ALL LC_CTYPE TMPDIR SYSTEMROOT PYTHONPATH PWD OLDPWD SHLVL _";
    let foreign = std::env::vars().map(|(name, _)| name);
    let foreign = foreign.filter(|name| !USEFUL.split(' ').any(|one| one == name) && !name.starts_with("PYENV"));
    let foreign = serde_json::to_string(&foreign.collect::<Vec<_>>()).unwrap();
    // Its secrets are not in its environment; of six simultaneous calls four run and two are refused; five in total,
    // and no more.
    let text = format!("FOREIGN = {foreign}\n")
        + "hello = hear('hello')\nassert len(hello['tools']) == 8, hello\n\
        assert [k for k in hello['kinds'] if k['kind'] == 'swap'][0]['parameters']['properties']['amount']\n\
        left = [name for name in FOREIGN if name in os.environ]\n\
        assert left == [], left\nhear('tick')\n\
        swap = dict(token_in='WETH', token_out='USDC', amount='0.05', chain='ethereum', prefer_uniswapx=False)\n\
        call = lambda n: dict(type='call', id=str(n), tool='preview_action', params=dict(kind='swap', params=swap))\n\
        sys.stdout.write(''.join(json.dumps(call(n)) + '\\n' for n in range(6)))\nsys.stdout.flush()\n\
        lines = [json.loads(sys.stdin.readline()) for n in range(6)]\n\
        kinds = sorted(line['type'] for line in lines)\n\
        assert kinds == ['refused', 'refused', 'result', 'result', 'result', 'result'], kinds\n\
        assert all(line['untrusted'] for line in lines if line['type'] == 'result')\n\
        say(type='call', id='7', tool='uniswap_execute_swap', params={})\n\
        assert hear('result')['response']['error']['code'] == 'TOOL_UNKNOWN'\n\
        say(type='call', id='8', tool='query_state', params=dict(query='balances'))\n\
        assert 'limit' in hear('refused')['why']\n\
        say(type='think', text='\\x1b[2Jone', more=True)\nsay(type='think', text='two')\nsay(type='done')\n";
    let mut life = harness.life("ada", "trade-executor", script(&harness, &text, ProcessLimits { calls: 5, ..LIMITS }));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    let thoughts: Vec<_> = drain(&mut events)
        .into_iter()
        .filter_map(|event| match &event.kind {
            EventKind::GolemThought(thought) => Some((thought.thought, thought.text.to_string(), thought.more)),
            _ => None,
        })
        .collect();
    assert!(thoughts.iter().all(|(_, text, _)| !text.contains('\u{1b}')));
    let two = thoughts.iter().position(|(_, text, _)| text == "two").unwrap();
    assert_eq!((thoughts[two].0, thoughts[two - 1].0, thoughts[two - 1].2), (1, 1, true));
    life.leave().await;
}

/// A program speaks the dialect with the rights of its role: reads, compiles, executes once, and is refused what the role
/// does not have. What it compiled and did not execute ends with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_speaks_almanaks_dialect_within_its_role() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    let text = "hello = hear('hello')\nassert hello['dialects'] == ['almanak'], hello\nhear('tick')\n\
        def ask(n, tool, **params):\n\
        \x20 say(type='call', id=str(n), dialect='almanak', tool=tool, params=params)\n\
        \x20 return hear('result')['response']\n\
        price = ask(1, 'get_price', token='WETH', chain='ethereum')\n\
        assert price['status'] == 'success' and price['data']['price_usd'] > 1000, price\n\
        swap = dict(token_in='WETH', token_out='USDC', amount='0.05')\n\
        dry = ask(2, 'swap_tokens', dry_run=True, chain='ethereum', **swap)\n\
        assert dry['status'] == 'simulated', dry\n\
        made = ask(3, 'compile_intent', intent_type='swap', params=swap, chain='ethereum')\n\
        assert made['status'] == 'success', made\n\
        done = ask(4, 'execute_compiled_bundle', bundle_id=made['data']['bundle_id'])\n\
        assert done['status'] == 'success' and len(done['data']['tx_hashes']) == 2, done\n\
        again = ask(5, 'execute_compiled_bundle', bundle_id=made['data']['bundle_id'])\n\
        assert again['error']['error_code'] == 'risk_blocked', again\n\
        gone = ask(6, 'close_lp_position', position_id='1', chain='ethereum')\n\
        assert 'close_position' in gone['error']['message'], gone\n\
        left = ask(7, 'compile_intent', intent_type='swap', params=swap, chain='ethereum')\n\
        assert left['status'] == 'success', left\n\
        say(type='call', id='8', tool='swap_tokens', params=swap)\n\
        assert hear('result')['response']['error']['code'] == 'TOOL_UNKNOWN'\n\
        say(type='done')\n";
    let mut life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    // The allowance for Permit2, and the swap.
    assert_eq!(harness.sent().await, before + 2);
    assert_eq!(life.agent.open_offers(), 0);
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn excessive_output_of_a_program_is_not_stored_in_full() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    // Fewer lines than would end it, and longer ones than are stored.
    let text = "hello = hear('hello')\nhear('tick')\n\
        for n in range(180): say(type='think', text='%03d ' % n + 'blah ' * 199)\n\
        say(type='done')\n";
    let mut life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    let thoughts = drain(&mut events).into_iter().filter_map(|event| match &event.kind {
        EventKind::GolemThought(thought) => Some(thought.text.to_string()),
        _ => None,
    });
    let thoughts: Vec<String> = thoughts.filter(|text| text.contains("blah") || text.contains("too much")).collect();
    let kept: usize = thoughts.iter().map(String::len).sum();
    assert!(kept > 50_000 && kept < 131_072, "{kept} of 180,000 bytes");
    assert_eq!(thoughts.iter().filter(|text| text.contains("too much output")).count(), 1);
    // The capacity reserved for the operator's messages is not used up by it.
    hears(&life, &mut events).await;
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_paused_it_receives_no_ticks_but_the_operators_messages() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let mut events = harness.events();
    let text = "hear('tick')\nsay(type='think', text='awake')\nticks = 0\nwhile True:\n    \
        line = json.loads(sys.stdin.readline())\n    if line['type'] == 'words': break\n    ticks += line['context']['stop'] == 'pause'\n    \
        say(type='idle')\nsay(type='think', text='heard %s after %d under %s' % (line['text'], ticks, \
        line['context']['stop']))\nhear('bye')\n";
    let life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    let thinks = |wanted: &'static str| {
        move |event: &Event| match &event.kind {
            EventKind::GolemThought(thought) => thought.text.as_str().starts_with(wanted),
            _ => false,
        }
    };
    until(&mut events, "its first thought", thinks("awake")).await;
    life.stopped.send_replace(Some(StopLevel::Pause));
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    life.words.send(SafeText::clean("are you there", 40)).await.unwrap();
    let heard = until(&mut events, "the program's answer", thinks("heard are you there after ")).await;
    let EventKind::GolemThought(heard) = &heard.kind else { unreachable!() };
    // A program that is being asked has received four of them.
    assert_eq!(heard.text.as_str(), "heard are you there after 0 under pause");
    life.leave().await;
}

/// A repeated id, and an unanswered tick: neither is mistaken for something else.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_id_is_used_once_and_no_tick_follows_an_unanswered_one() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let text = "import select\nhear('tick')\n\
        call = json.dumps(dict(type='call', id='1', tool='preview_action', params=dict(kind='swap', params=dict( \
        token_in='WETH', token_out='USDC', amount='0.05', chain='ethereum', prefer_uniswapx=False)))) + '\\n'\n\
        sys.stdout.write(call + call)\nsys.stdout.flush()\n\
        lines = [json.loads(os.read(0, 1 << 20).split(b'\\n')[0])]\n\
        assert lines[0]['type'] == 'refused' and 'in progress' in lines[0]['why'], lines\n\
        rest = b''\n\
        while b'\"result\"' not in rest: rest += os.read(0, 1 << 20)\n\
        while b'\"tick\"' not in rest: rest += os.read(0, 1 << 20)\n\
        more = select.select([0], [], [], 2.0)[0]\n\
        assert not more, os.read(0, 1 << 20)\nsay(type='done')\n";
    let mut life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
    assert_eq!(life.brains_end().await, Vec::<String>::new());
    life.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_during_a_preview_leaves_no_offer() {
    if !python() {
        return;
    }
    let harness = GolemHarness::new().await;
    let before = harness.sent().await;
    // Four previews are started, and nobody waits for their answers.
    let text = "hear('tick')\nparams = dict(token_in='WETH', token_out='USDC', amount='0.05', chain='ethereum')\n\
        params['prefer_uniswapx'] = False\n\
        lines = [dict(type='call', id=str(n), tool='preview_action', params=dict(kind='swap', params=params)) \
        for n in range(4)]\n\
        sys.stdout.write(''.join(json.dumps(line) + '\\n' for line in lines))\nsys.stdout.flush()\n\
        os.kill(os.getpid(), signal.SIGKILL)\n";
    let mut events = harness.events();
    for _ in 0..3 {
        let mut life = harness.life("ada", "trade-executor", script(&harness, text, LIMITS));
        let why = life.brains_end().await;
        assert!(why[0].contains("killed by signal 9"), "{why:?}");
        assert_eq!(life.agent.open_offers(), 0);
        // All started calls end, and no offer results.
        life.words.send(SafeText::clean("balances", 40)).await.unwrap();
        let (mut told, begun) = (Vec::new(), Instant::now());
        loop {
            told.extend(drain(&mut events));
            let heard = told.iter().any(|event| match &event.kind {
                EventKind::GolemThought(thought) => thought.text.as_str().starts_with("You said: balances"),
                _ => false,
            });
            let calls = |of: fn(&EventKind) -> bool| {
                told.iter().filter(|event| of(&event.kind)).map(|event| event.call_id).collect::<BTreeSet<_>>()
            };
            let started = calls(|kind| matches!(kind, EventKind::ToolStart(_)));
            if heard && started == calls(|kind| matches!(kind, EventKind::ToolEnd(_))) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "something goes on: {told:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(life.agent.open_offers(), 0, "none came of it afterwards");
        life.leave().await;
    }
    assert_eq!(harness.sent().await, before);
}
