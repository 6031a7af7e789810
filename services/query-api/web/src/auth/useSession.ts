import { useSyncExternalStore } from 'react';

import { currentSession, onSessionChange } from './session';

export const useSession = () => useSyncExternalStore(onSessionChange, currentSession);
