package main

import (
	"io"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vidra-operator/vidra/pkg/terminal"
)

// newLogger returns the logger of the operator. It logs no bodies of requests, and no control characters: names and
// messages in the log come from clusters, and users read it in terminals.
func newLogger(options zap.Options, out io.Writer) logr.Logger {
	if options.Level != nil { // otherwise it is the default of zap, which is below mostVerbose
		options.Level = boundedLevel{options.Level}
	}
	options.DestWriter = &terminal.Writer{Out: out}
	return zap.New(zap.UseFlagOptions(&options))
}

// mostVerbose is the highest verbosity of the log. At 8, client-go logs the bodies of requests and answers, with the
// values of Secrets (k8s.io/client-go/rest, logBody).
const mostVerbose = zapcore.Level(-7)

// boundedLevel is a level of the log that is never above mostVerbose.
type boundedLevel struct{ zapcore.LevelEnabler }

// Enabled reports whether messages of a level are logged.
func (b boundedLevel) Enabled(level zapcore.Level) bool {
	return level >= mostVerbose && b.LevelEnabler.Enabled(level)
}
