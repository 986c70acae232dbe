// Package faultproxy stands between a client and a real kube-apiserver and
// makes the server misbehave where the server itself cannot be made to: it
// refuses, stalls, breaks off in mid-answer, closes a watch early, says that a
// watch has expired, or is not there.
//
//	proxy, err := faultproxy.Start(env.Config)
//	defer proxy.Close()
//	client, err := dynamic.NewForConfig(proxy.Config())
//
//	lists := faultproxy.Match{Verb: "list", Resource: gvr}
//	rule := proxy.Inject(lists, faultproxy.Status(apierrors.NewForbidden(gvr.GroupResource(), "", nil)))
//	...
//	rule.Remove()
//
// What can be relied on:
//
//   - What no rule matches passes unchanged and at once, the events of a watch
//     above all.
//   - A fault is what a client sees of a real server: a Status with its code, a
//     broken stream of HTTP/2 that leaves the other requests of the connection
//     alone, a refused connection. Nothing else is made up.
//   - A request is recorded and its rule is chosen before it is answered, so
//     a client that has the answer finds the request in Requests and in Hits.
//   - A watch can be cut from the moment at which its client has it.
//   - After Close, no goroutine and no connection of the proxy is left.
//
// The proxy reaches the API server with the credentials that it was started
// with and asks its own clients for none. It is for tests: it never listens on
// anything but the loopback address.
package faultproxy
