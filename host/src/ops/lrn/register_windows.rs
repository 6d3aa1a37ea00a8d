//! Windows of 3 and 5 channels in registers: one reading of memory, one kernel each pass.

use super::{LrnPass, LrnProblem, LrnRegion};
use crate::driver::Function;
use crate::launch::{LaunchConfig, div_ceil, launch_on};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::lrn::register_windows::{
    BLOCK_POSITIONS, LrnWindowsParams, PLANE_CHANNELS, SINGLE_CHANNELS, Strides, THREADS,
};

/// What neighbouring threads take.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    /// 16 bytes of channels each.
    Channels,
    /// 16 bytes of positions each.
    Planes,
    /// A position each.
    Single,
}

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Channels on each side of a window's middle.
    half: i64,
    walk: Walk,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $half:literal, $walk:ident)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            half: $half,
            walk: kernels!(@$walk),
        }),*]
    };
    (@channels) => { Walk::Channels };
    (@planes) => { Walk::Planes };
    (@single) => { Walk::Single };
}
const KERNELS: &[Kernel] = kernel_abi::lrn_window_kernels!(kernels);

/// Bytes of a vector.
const VECTOR: i64 = 16;

/// The largest extents of a grid along y and z.
const MAX_GRID: i64 = 65_535;

/// A few channels and all that their windows reach, a thread.
pub(super) struct RegisterWindows;

impl Algorithm<LrnProblem> for RegisterWindows {
    fn name(&self) -> &'static str {
        "register_windows"
    }

    fn configs(&self, problem: &LrnProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let dtype = problem.x().dtype();
        if dtype == DType::F64 {
            return Err(Refusal::new("takes f32, f16 and bf16, given f64"));
        }
        if problem.region() != LrnRegion::AcrossChannels {
            return Err(Refusal::new(format!("takes windows across channels, given {}", problem.region())));
        }
        if let Some(means) = problem.means() {
            return Err(Refusal::new(format!("takes no means, given {means}")));
        }
        if ![3, 5].contains(&problem.n()) {
            return Err(Refusal::new(format!("takes windows of 3 and 5 channels, given {}", problem.n())));
        }
        let geometry = Geometry::of(problem)?;
        let walks = [Walk::Channels, Walk::Planes, Walk::Single].into_iter().filter(|&walk| geometry.takes(walk));
        Ok(walks.filter_map(|walk| kernel(problem, walk)).map(|kernel| Config(kernel.symbol)).collect())
    }

    fn workspace_bytes(&self, _: &LrnProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &LrnProblem, config: Config, context: &Context) -> f64 {
        /// Share of the memory's rate with vectors, and with single elements side by side or apart.
        const SHARES: [f64; 3] = [0.85, 0.5, 0.15];
        /// Instructions of a power with f32 and with 16 bits, and what else an element takes.
        const POWER: [f64; 2] = [50.0, 8.0];
        const ELSE: f64 = 15.0;
        let info = context.info();
        let wide = walk_of(config) != Walk::Single;
        let together = Geometry::of(problem).is_ok_and(|g| g.strides.iter().all(|strides| strides.position == 1));
        let share = SHARES[if wide { 0 } else { 2 - usize::from(together) }];
        // Backward, the powers of the channels beside a thread's own are computed too.
        let powers = if problem.lrn_pass() == LrnPass::Backward { 2.0 } else { 1.0 };
        let power = POWER[usize::from(problem.x().dtype() != DType::F32)];
        let instructions = problem.x().n_elems() as f64 * powers * (power + ELSE);
        // The plain rate counts a multiply-add twice.
        LAUNCH_US + (problem.bytes() / (share * info.bytes_per_us)).max(2.0 * instructions / info.flops_per_us)
    }

    fn prepare(&self, problem: &LrnProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let geometry = Geometry::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let step = |walk: Walk| -> Result<Step, Error> {
            let symbol = kernel(problem, walk).map_or("", |kernel| kernel.symbol);
            Ok(Step {
                function: context.function(symbol)?,
                config: geometry.grid(problem, walk),
                params: geometry.params(problem, walk),
            })
        };
        Ok(Box::new(Windows { chosen: step(walk_of(config))?, single: step(Walk::Single)? }))
    }
}

fn kernel(problem: &LrnProblem, walk: Walk) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| {
        kernel.pass == problem.pass()
            && kernel.dtype == problem.x().dtype()
            && kernel.half == problem.n() / 2
            && kernel.walk == walk
    })
}

fn walk_of(config: Config) -> Walk {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).map_or(Walk::Single, |kernel| kernel.walk)
}

/// How the tensors lie.
struct Geometry {
    images: i64,
    channels: i64,
    positions: i64,
    /// Elements of a vector.
    lanes: i64,
    /// Of x, dy and what is written.
    strides: [Strides; 3],
}

impl Geometry {
    fn of(problem: &LrnProblem) -> Result<Self, Refusal> {
        let x = problem.x();
        let tensors: [&TensorDesc; 3] = [x, problem.dy().unwrap_or(x), problem.out()];
        let spatial: Vec<usize> = (2..x.rank()).collect();
        let planes = collapse_dims(tensors, &spatial);
        let last = planes[0].dims.len() - 1;
        if planes[0].dims[..last].iter().any(|&dim| dim != 1) {
            return Err(Refusal::new(format!("takes positions at equal distances, given {x} and {}", problem.out())));
        }
        let strides = [0, 1, 2].map(|i| Strides {
            image: tensors[i].strides()[0],
            channel: tensors[i].strides()[1],
            position: planes[i].strides[last],
        });
        let geometry = Geometry {
            images: x.dims()[0],
            channels: x.dims()[1],
            positions: planes[0].dims[last],
            lanes: VECTOR / x.dtype().size_bytes() as i64,
            strides,
        };
        let most_channels = MAX_GRID * i64::from(THREADS / BLOCK_POSITIONS * PLANE_CHANNELS[1]);
        if geometry.channels > most_channels {
            return Err(Refusal::new(format!("takes up to {most_channels} channels, given {}", geometry.channels)));
        }
        let most = i64::from(i32::MAX);
        if geometry.images > most || geometry.positions > most {
            return Err(Refusal::new(format!(
                "takes up to {most} images and positions, given {} and {}",
                geometry.images, geometry.positions
            )));
        }
        Ok(geometry)
    }

    fn takes(&self, walk: Walk) -> bool {
        // Distances that are never gone do not matter.
        let whole = |extent: i64, stride: i64| extent == 1 || stride % self.lanes == 0;
        let all = |able: &dyn Fn(&Strides) -> bool| self.strides.iter().all(able);
        match walk {
            Walk::Single => true,
            Walk::Channels => {
                self.channels % self.lanes == 0
                    && self.images * self.positions * (self.channels / self.lanes) <= i64::from(i32::MAX)
                    && all(&|s| s.channel == 1 && whole(self.images, s.image) && whole(self.positions, s.position))
            }
            Walk::Planes => {
                self.positions % self.lanes == 0
                    && all(&|s| s.position == 1 && whole(self.images, s.image) && whole(self.channels, s.channel))
            }
        }
    }

    /// Positions, or vectors of them.
    fn places(&self, walk: Walk) -> i64 {
        if walk == Walk::Planes { self.positions / self.lanes } else { self.positions }
    }

    /// Threads that go along channels.
    fn n_threads(&self) -> i64 {
        self.images * self.positions * (self.channels / self.lanes)
    }

    fn grid(&self, problem: &LrnProblem, walk: Walk) -> LaunchConfig {
        let ceil = |a: i64, b: u32| div_ceil(a, i64::from(b));
        let backward = problem.lrn_pass() == LrnPass::Backward;
        let own = match walk {
            Walk::Planes => PLANE_CHANNELS[usize::from(backward)],
            _ => SINGLE_CHANNELS,
        };
        let grid = match walk {
            Walk::Channels => [ceil(self.n_threads(), THREADS), 1, 1],
            _ => [
                ceil(self.places(walk), BLOCK_POSITIONS),
                ceil(self.channels, own * (THREADS / BLOCK_POSITIONS)),
                self.images.min(MAX_GRID),
            ],
        };
        LaunchConfig { grid: grid.map(|n| n as u32), block: [THREADS, 1, 1], ..LaunchConfig::default() }
    }

    fn params(&self, problem: &LrnProblem, walk: Walk) -> LrnWindowsParams {
        let n = problem.window_elems();
        let [x_strides, dy_strides, out_strides] = self.strides;
        LrnWindowsParams {
            x: 0,
            dy: 0,
            out: 0,
            x_strides,
            dy_strides,
            out_strides,
            images: self.images as u32,
            channels: self.channels as u32,
            positions: self.places(walk) as u32,
            n_threads: if walk == Walk::Channels { self.n_threads() as u32 } else { 0 },
            vectors: Divisor::new((self.channels / self.lanes) as u32),
            image: Divisor::new(self.positions as u32),
            alpha: (problem.alpha() / n) as f32,
            beta: problem.beta() as f32,
            k: problem.k() as f32,
            factor: (2.0 * problem.alpha() / n * problem.beta()) as f32,
            result_factor: 1.0,
            prior_factor: 0.0,
        }
    }
}

struct Step {
    function: Function,
    config: LaunchConfig,
    params: LrnWindowsParams,
}

struct Windows {
    chosen: Step,
    /// For addresses that are no multiples of 16.
    single: Step,
}

impl Launch for Windows {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let last = call.operands.len() - 1;
        let (x, out) = (call.address(0), call.address(last));
        let dy = if last > 1 { call.address(1) } else { 0 };
        let aligned = (x | dy | out).is_multiple_of(VECTOR as u64);
        let Step { function, config, params } = if aligned { &self.chosen } else { &self.single };
        let (result_factor, prior_factor) = (call.alpha as f32, call.beta as f32);
        launch_on(stream, function, config, &LrnWindowsParams { x, dy, out, result_factor, prior_factor, ..*params })
    }
}
