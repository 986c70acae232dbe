package access

import "k8s.io/apiserver/pkg/authentication/serviceaccount"

// tenant is a namespace of accounts in a cluster; without a namespace Vidra itself.
type tenant struct{ cluster, namespace string }

// turns are the rights to ask for. Tenants take turns: thousands of rights of one leave the rights of others undelayed. It implements
// [k8s.io/client-go/util/workqueue.Queue].
type turns struct {
	// waiting are the rights of each tenant, and next the tenants that have any.
	waiting map[tenant][]Right
	next    []tenant
	rights  int
}

func (q *turns) Touch(Right) {}

func (q *turns) Push(right Right) {
	of := tenant{cluster: right.Subject.Cluster}
	of.namespace, _, _ = serviceaccount.SplitUsername(right.Subject.User)
	if len(q.waiting[of]) == 0 {
		q.next = append(q.next, of)
	}
	q.waiting[of] = append(q.waiting[of], right)
	q.rights++
}

func (q *turns) Len() int { return q.rights }

func (q *turns) Pop() Right {
	of := q.next[0]
	right, rest := q.waiting[of][0], q.waiting[of][1:]
	if q.next = q.next[1:]; len(rest) > 0 {
		q.waiting[of], q.next = rest, append(q.next, of)
	} else {
		delete(q.waiting, of)
	}
	q.rights--
	return right
}
