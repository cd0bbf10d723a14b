//! One heartbeat of a Golem with 100,000 trades in memory (goal: under 5 ms), and the selection of a role's tools from
//! 190 (goal: under 1 ms).

use std::sync::Arc;

use bardo::base::clock::{Clock, SystemClock};
use bardo::base::config::{Config, ConfigFlags, Environment};
use bardo::base::error::ToolError;
use bardo::base::id::GolemId;
use bardo::base::model::{
    ActionClass, CapabilityTier, Category, Check, Guidelines, Phase, Profile, RiskTier, SpriteTrigger, TickBudget,
    ToolMeta,
};
use bardo::base::text::SafeText;
use bardo::engine::{CallContext, Catalog, ReadTool, ToolDef, ToolReply, ToolSelection};
use bardo::golem::archetype::Archetypes;
use bardo::golem::memory::{Episode, EpisodeOutcome, Memory, Topic};
use bardo::golem::phase::{PhaseMachine, PhaseRules};
use bardo::golem::vitals::{LifeTerms, VitalsMeter};
use bardo::runtime::data::DataFolder;
use bardo::sandbox::{BlockPace, MarketMode, SandboxConfig};
use criterion::{Criterion, criterion_group, criterion_main};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Number of trades in memory.
const EPISODES: u64 = 100_000;

/// Number of tools in the catalog.
const TOOLS: usize = 190;

#[rustfmt::skip]
const NAMES: [&str; TOOLS] = [
    "tool_000", "tool_001", "tool_002", "tool_003", "tool_004", "tool_005", "tool_006", "tool_007", "tool_008",
    "tool_009", "tool_010", "tool_011", "tool_012", "tool_013", "tool_014", "tool_015", "tool_016", "tool_017",
    "tool_018", "tool_019", "tool_020", "tool_021", "tool_022", "tool_023", "tool_024", "tool_025", "tool_026",
    "tool_027", "tool_028", "tool_029", "tool_030", "tool_031", "tool_032", "tool_033", "tool_034", "tool_035",
    "tool_036", "tool_037", "tool_038", "tool_039", "tool_040", "tool_041", "tool_042", "tool_043", "tool_044",
    "tool_045", "tool_046", "tool_047", "tool_048", "tool_049", "tool_050", "tool_051", "tool_052", "tool_053",
    "tool_054", "tool_055", "tool_056", "tool_057", "tool_058", "tool_059", "tool_060", "tool_061", "tool_062",
    "tool_063", "tool_064", "tool_065", "tool_066", "tool_067", "tool_068", "tool_069", "tool_070", "tool_071",
    "tool_072", "tool_073", "tool_074", "tool_075", "tool_076", "tool_077", "tool_078", "tool_079", "tool_080",
    "tool_081", "tool_082", "tool_083", "tool_084", "tool_085", "tool_086", "tool_087", "tool_088", "tool_089",
    "tool_090", "tool_091", "tool_092", "tool_093", "tool_094", "tool_095", "tool_096", "tool_097", "tool_098",
    "tool_099", "tool_100", "tool_101", "tool_102", "tool_103", "tool_104", "tool_105", "tool_106", "tool_107",
    "tool_108", "tool_109", "tool_110", "tool_111", "tool_112", "tool_113", "tool_114", "tool_115", "tool_116",
    "tool_117", "tool_118", "tool_119", "tool_120", "tool_121", "tool_122", "tool_123", "tool_124", "tool_125",
    "tool_126", "tool_127", "tool_128", "tool_129", "tool_130", "tool_131", "tool_132", "tool_133", "tool_134",
    "tool_135", "tool_136", "tool_137", "tool_138", "tool_139", "tool_140", "tool_141", "tool_142", "tool_143",
    "tool_144", "tool_145", "tool_146", "tool_147", "tool_148", "tool_149", "tool_150", "tool_151", "tool_152",
    "tool_153", "tool_154", "tool_155", "tool_156", "tool_157", "tool_158", "tool_159", "tool_160", "tool_161",
    "tool_162", "tool_163", "tool_164", "tool_165", "tool_166", "tool_167", "tool_168", "tool_169", "tool_170",
    "tool_171", "tool_172", "tool_173", "tool_174", "tool_175", "tool_176", "tool_177", "tool_178", "tool_179",
    "tool_180", "tool_181", "tool_182", "tool_183", "tool_184", "tool_185", "tool_186", "tool_187", "tool_188",
    "tool_189",
];

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Params {
    token: String,
}

/// Tool number `N`, in the category of that number.
struct Numbered<const N: usize>;

impl<const N: usize> ReadTool for Numbered<N> {
    const META: ToolMeta = ToolMeta {
        name: NAMES[N],
        description: "Answers with what it was asked.",
        category: Category::ALL[N % Category::ALL.len()],
        capability: CapabilityTier::Read,
        risk_tier: RiskTier::Layer1,
        tick_budget: TickBudget::Fast,
        progress_steps: &["Answering"],
        sprite_trigger: SpriteTrigger::Thinking,
        prompt_snippet: "Answers.",
        prompt_guidelines: Guidelines {
            thriving: "Any time.",
            cautious: "Any time.",
            declining: "Any time.",
            terminal: "Any time.",
            memory: None,
        },
        idempotent: true,
        action_class: ActionClass::ReadOnly,
        checks: &[Check::RateLimit],
        event_params: &[],
        summary_fields: &[],
        card: None,
        spenders: &[],
    };
    type Params = Params;
    type Output = Params;

    fn example() -> Value {
        json!({"token": "WETH"})
    }

    async fn run(_: &CallContext, params: Params) -> Result<ToolReply<Params>, ToolError> {
        Ok(ToolReply::new(params, "As asked."))
    }
}

macro_rules! numbered {
    ($($number:literal)*) => { [$(ToolDef::read::<Numbered<$number>>()),*] };
}

#[rustfmt::skip]
static DEFS: [ToolDef; TOOLS] = numbered!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
    40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76
    77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109
    110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136
    137 138 139 140 141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158 159 160 161 162 163
    164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180 181 182 183 184 185 186 187 188 189
);

/// Memory of trade number `number`.
fn episode(number: u64) -> Episode {
    let text = |words: &str| SafeText::clean(words, 200);
    let tokens = ["WETH", "USDC", "UNI", "LINK", "WBTC"];
    let of = |at: u64| tokens[usize::try_from(at).unwrap_or_default() % tokens.len()];
    let params = json!({"token_in": of(number), "token_out": of(number + 1), "chain": "ethereum"});
    Episode {
        at: 1_700_000_000_000 + number,
        call_id: format!("{number:026}"),
        topic: Topic::of("swap", &params),
        cents: 25_000,
        phase: Phase::Thriving,
        outcome: EpisodeOutcome::Done,
        code: None,
        allowed_bps: Some(50),
        slipped_bps: Some(i64::try_from(number % 40).unwrap_or_default()),
        expected: text("at least 848.28 USDC for 0.25 WETH"),
        actual: text("852.37 USDC came in"),
        difference: text("0.02 % under the quote"),
        lesson: text("a tighter bound would have done"),
    }
}

fn heartbeat(criterion: &mut Criterion) {
    let runtime = bardo::base::runtime::multi_threaded(Some(2)).expect("a runtime");
    let home = tempfile::tempdir().expect("a folder");
    let (mut gauge, memory, _opened) = runtime.block_on(async {
        let home = home.path().to_str().expect("a path in UTF-8");
        let environment: Environment = [("BARDO_HOME", home)].into_iter().collect();
        let config = Config::load(&environment, &ConfigFlags::default()).expect("a configuration");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let sandbox = SandboxConfig {
            seed: 1,
            start_time: clock.now_seconds(),
            pace: BlockPace::Manual,
            clock: Some(clock.clone()),
            market: MarketMode::On,
            keeper: true,
        };
        let opened = bardo::runtime::open(&config, move || sandbox, clock.clone()).await.expect("a devnet");
        let data = DataFolder::of(&config);
        data.create().expect("a data folder");
        let ledger = data.open_ledger(&opened).await.expect("a ledger");
        let golem: GolemId = "ada".parse().expect("a name");
        let memory = Memory::new(ledger.store.clone(), golem);
        memory.record_all((0..EPISODES).map(episode).collect()).await.expect("a long memory");
        let world = Arc::new(opened.world.clone());
        let terms = LifeTerms { born_at: clock.now_millis(), high_water: None, lifespan_seconds: None };
        (VitalsMeter::new(world, terms).expect("a wallet"), memory, (opened, ledger))
    });
    assert_eq!(memory.count().expect("a count"), EPISODES);
    let mut machine = PhaseMachine::new(PhaseRules::DEFAULT);
    let topic = Topic::of("swap", &json!({"token_in": "WETH", "token_out": "USDC", "chain": "ethereum"}));
    criterion.bench_function("one heartbeat with 100,000 trades remembered", |bencher| {
        bencher.iter(|| {
            let now = SystemClock.now_millis();
            let (reading, worth) = runtime.block_on(async {
                // Read each time, like the health monitor does, since another process may have reset the high-water
                // mark.
                memory.life(&SystemClock).await.expect("a life");
                gauge.read(now).await
            });
            machine.observe(&reading, now);
            let alike = memory.alike(&topic, 20).expect("a memory");
            (gauge.to_event(&machine, &reading, &worth), alike)
        });
    });
    criterion.bench_function("a search among 100,000 trades", |bencher| {
        bencher.iter(|| memory.search("WETH USDC tighter", None, 10).expect("a memory"));
    });
}

fn resolution(criterion: &mut Criterion) {
    let catalog = Catalog::new(DEFS.iter()).expect("a catalog");
    let roles = Archetypes::load(None).expect("the roles");
    criterion.bench_function("which of 190 tools a role can reach", |bencher| {
        bencher.iter(|| roles.reach("golem-instance", &catalog).expect("a reach"));
    });
    // All tools: declared by a profile, selected, and formatted as a prompt for a phase.
    let all = ToolSelection { profile: Some(Profile::Dev), ..ToolSelection::default() };
    assert_eq!(catalog.select(&all).expect("a selection").len(), TOOLS);
    criterion.bench_function("190 tools from profile to prompt", |bencher| {
        bencher.iter(|| catalog.select(&all).expect("a selection").prompt(Phase::Cautious));
    });
}

criterion_group!(benches, heartbeat, resolution);
criterion_main!(benches);
