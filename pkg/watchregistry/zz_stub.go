package watchregistry

func (r *Registry) RemoveCluster(name string) {}
func (r *Registry) Wake(cluster string)       {}
