package parallel

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Panic is the first panic of several goroutines. Its zero value is empty. It is safe for concurrent use.
type Panic struct {
	once  sync.Once
	value any
}

// Catch recovers from a panic of the present goroutine. It must be deferred.
func (p *Panic) Catch() {
	if why := recover(); why != nil {
		p.once.Do(func() { p.value = fmt.Sprintf("%v\n%s", why, debug.Stack()) })
	}
}

// Raise panics as the first goroutine did, if one did. It must be called after the goroutines have ended.
func (p *Panic) Raise() {
	if p.value != nil {
		panic(p.value)
	}
}
