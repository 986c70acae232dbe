package main

import (
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

const (
	// mostVerbose is the highest verbosity of the log. At 8, client-go logs the bodies of requests and answers, with the
	// values of Secrets (k8s.io/client-go/rest, logBody).
	mostVerbose = zapcore.Level(-7)
	// equalLines is how many lines with one message are logged in a second; then every one of equalLines is.
	equalLines = 100
)

// logging is the log of the operator. Its level can be changed while the operator runs.
type logging struct {
	logr.Logger
	level uberzap.AtomicLevel
	// suppressed counts the suppressed lines, by cause.
	suppressed *prometheus.CounterVec
}

// newLogger returns the log of the operator. It has no bodies of requests, and no control characters: names and
// messages in the log come from clusters, and users read it in terminals.
func newLogger(options zap.Options, out io.Writer) *logging {
	l := &logging{level: uberzap.NewAtomicLevelAt(mostVerbose), suppressed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "vidra_log_lines_suppressed_total",
		Help: "Lines that are missing in the log: object, because there are many about one object, or rate, because there are many with one message.",
	}, []string{"cause"})}
	l.suppressed.WithLabelValues(suppressedObject)
	rate := l.suppressed.WithLabelValues("rate")
	if !options.Development {
		if options.StacktraceLevel == nil { // the stack of the controller is the same for each refused object, and a panic logs its own
			options.StacktraceLevel = zapcore.PanicLevel
		}
		options.ZapOpts = append(options.ZapOpts, uberzap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Second, equalLines, equalLines, zapcore.SamplerHook(func(_ zapcore.Entry, decision zapcore.SamplingDecision) {
				if decision&zapcore.LogDropped != 0 {
					rate.Inc()
				}
			}))
		}))
	}
	level := zapcore.InfoLevel
	switch {
	case options.Level != nil:
		level = zapcore.LevelOf(options.Level)
	case options.Development:
		level = zapcore.DebugLevel
	}
	options.Level, options.DestWriter = boundedLevel{l.level}, &terminal.Writer{Out: out}
	l.Logger = zap.New(zap.UseFlagOptions(&options)) // it adds no sampler of its own at the highest verbosity
	l.level.SetLevel(level)
	return l
}

// orderlyEnd is the sink of the log of a manager, without the error at each orderly end of a process that leads: it releases its Lease.
type orderlyEnd struct{ logr.LogSink }

// Error implements logr.LogSink.
func (o orderlyEnd) Error(err error, message string, values ...any) {
	if message != "error received after stop sequence was engaged" || err.Error() != "leader election lost" {
		o.LogSink.Error(err, message, values...)
	}
}

// suppressedObject is the cause of lines that are missing because there are many about one object.
const suppressedObject = "object"

// handler returns the handler of logLevelPath: GET returns the level, and PUT changes it. writable reports that the API server
// has authorized the client.
func (l *logging) handler(writable bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && !writable {
			http.Error(w, "the log level cannot be changed without --metrics-secure: any client could", http.StatusForbidden)
			return
		}
		before := l.level.Level()
		r.Body = http.MaxBytesReader(w, r.Body, maxLevelBody)
		l.level.ServeHTTP(w, r)
		if now := l.level.Level(); now != before {
			l.WithName("log").Info("The log level was changed", "from", before.String(), "to", now.String())
		}
	})
}

// maxLevelBody is how long the body of a request for another level may be.
const maxLevelBody = 1 << 10

// boundedLevel is a level of the log that is at most mostVerbose.
type boundedLevel struct{ zapcore.LevelEnabler }

// Enabled reports whether messages of a level are logged.
func (b boundedLevel) Enabled(level zapcore.Level) bool {
	return level >= mostVerbose && b.LevelEnabler.Enabled(level)
}
