package main

import "go.uber.org/zap/zapcore"

// mostVerbose is the highest verbosity of the log. At 8, client-go logs the bodies of requests and answers, with the
// values of Secrets (k8s.io/client-go/rest, logBody).
const mostVerbose = zapcore.Level(-7)

// boundedLevel is a level of the log that is never above mostVerbose.
type boundedLevel struct{ zapcore.LevelEnabler }

// Enabled reports whether messages of a level are logged.
func (b boundedLevel) Enabled(level zapcore.Level) bool {
	return level >= mostVerbose && b.LevelEnabler.Enabled(level)
}
